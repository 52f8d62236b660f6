"""Run the fault campaign: python -m faults."""

import sys

from faults.campaign import main

sys.exit(main())
