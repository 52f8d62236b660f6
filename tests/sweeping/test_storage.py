"""Tests of the databases of studies: passwords are never shown, and damage is one message."""

import os
import sqlite3
import stat
import traceback
from urllib.parse import quote

import pytest
from sqlalchemy.exc import OperationalError

from errors import UserError
from sweeping.points import Sweep
from sweeping.settings import STORAGE_VARIABLE, Settings
from sweeping.slurm import submit
from sweeping.storage import (
    file_url,
    has_password,
    parse_storage,
    resolve_variable,
    shown,
    storage_variable,
    unusable,
)
from sweeping.study import Study
from tests.programs import call


def open_study(url):
    points = [{"a.b": 1}, {"a.b": 2}]
    return Study(url, "x", Sweep(points, None), Settings("bleu", grace=2), {"sweep": "a.py"})


def message(url):
    """Open a study that cannot be opened; return everything that the error could show."""
    with pytest.raises(UserError) as error:
        open_study(url)
    assert "\n" not in str(error.value)
    return "".join(traceback.format_exception_only(error.value)) + repr(error.value.__cause__)


# Every word of these passwords is a part that a wrong reading of the URL could show.
PASSWORDS = [
    "hidden", "hid/den", "hid:den", "hid@den", "hid@den:7", "hid@den/den", "hid@den?den", "hid#den",
    "hid?den=den", "hid&den=den", "hid%den", "hid%40den", "hid den", "hid[den]", "hid{den}",
    "hid://den@den", "@hid@den@", "hid'den\"", "hid\\den", "hïd\u2028dèn",
]  # fmt: skip
PLACES = [
    "mysql://me:{}@x",
    "mysql://me:{}@x:port/d",
    "postgresql://me:{}@/none?host=/nowhere",
    "postgresql://me:{}@/none?host=/nowhere&unknown=1",
    "postgresql://me:{}@localhost:port/none",
    "postgresql://me:{}@localhost:99999/none",
    "postgresql://m/e:{}@/none?host=/nowhere",
    "postgresql:/me:{}@x",
    "postgresql:///none?host=/nowhere&password={}",
    "postgresql:///none?host=/nowhere&sslpassword={}",
    "oracle:{}",
]


@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_no_message_contains_a_password(place, encoded):
    for password in PASSWORDS:
        written = quote(password, safe="") if encoded else password
        found = message(place.format(written))
        assert "hid" not in found and "den" not in found.replace("/nowhere/", ""), found
        assert "--storage" in found


def test_messages_show_the_other_parts_of_a_url():
    assert "--storage=mysql://me:***@x " in message("mysql://me:secret@x")
    assert "--storage is not a valid database URL" in message("nonsense")
    assert "number as the port" in message("postgresql://me@host:port/d")
    found = message("postgresql://me:secret@/none?host=/nowhere")
    assert "postgresql+psycopg2://me:***@/none?..." in found and "/nowhere" in found
    url = parse_storage("postgresql://me:p%40ss@host:99/d")
    assert (url.password, url.host, url.port) == ("p@ss", "host", 99) and has_password(url)
    assert has_password(parse_storage("postgresql:///d?password=x"))
    assert not has_password(parse_storage("postgresql://me@host/d"))


def test_a_reason_that_contains_the_password_is_left_out():
    url = parse_storage("postgresql://me:secret@host/d?password=other")
    for word in ("secret", "other"):
        found = str(unusable(url, OperationalError("", {}, Exception(f"wrong {word}"))))
        assert word not in found and "OperationalError" in found
    assert "wrong port" in str(unusable(url, OperationalError("", {}, Exception("wrong port"))))


def test_a_url_can_be_in_an_environment_variable(monkeypatch):
    monkeypatch.setenv("MINE", "postgresql://me:secret@host/d")
    assert parse_storage("env:MINE").password == "secret"
    monkeypatch.delenv("MINE")
    with pytest.raises(UserError, match="the environment variable MINE is not set"):
        resolve_variable("env:MINE")
    for before in ("old", None):
        if before is None:
            monkeypatch.delenv(STORAGE_VARIABLE, raising=False)
        else:
            monkeypatch.setenv(STORAGE_VARIABLE, before)
        with storage_variable("new") as storage:
            assert resolve_variable(storage) == "new"
        assert os.environ.get(STORAGE_VARIABLE) == before


def test_files_of_slurm_jobs_are_private(tmp_path):
    """The command of a job is in files that submitit writes, and in its log."""
    pytest.importorskip("submitit")
    folder = tmp_path / "slurm"
    with storage_variable("postgresql://me:secret@host/d") as storage:
        flags = [f"--storage={storage}", "--workdir=x"]
        (job,) = submit(flags, 1, {"timeout_min": 2}, folder, cluster="local")
        assert "--config is missing" in str(job.exception())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in folder.iterdir():
        assert b"secret" not in path.read_bytes()
    (written,) = folder.glob("*_submitted.pkl")
    assert stat.S_IMODE(written.stat().st_mode) == 0o600


def test_a_machine_without_slurm_is_one_message(tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="--slurm: "):
        submit(["--workdir=x"], 1, {}, tmp_path / "slurm")


FOLDERS = ["a?b=c", "a#b", "a%3Fb", "a b", "a{b}", "a{0}", "a@b:c", "a'b\"c", "ä\u2028", "a&b;c\\d"]


@pytest.mark.parametrize("name", FOLDERS)
def test_the_database_is_in_the_given_folder(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).mkdir()
    open_study(file_url(tmp_path / name / "study.db")).take()
    assert {path.name for path in tmp_path.iterdir()} == {name}
    assert {path.name for path in (tmp_path / name).iterdir()} == {"study.db", "study.db.lock"}


def damage(path, statement):
    with sqlite3.connect(path) as database:
        database.execute(statement)
    database.close()


DAMAGES = [
    "DROP TABLE trials",
    "DROP TABLE trial_user_attributes",
    "DROP TABLE version_info",
    "DELETE FROM trial_user_attributes",
    "UPDATE trial_user_attributes SET value_json = '[1]'",
    "UPDATE trial_user_attributes SET value_json = '{'",
    "UPDATE trial_user_attributes SET value_json = '3' WHERE key = 'point'",
    "UPDATE trial_user_attributes SET value_json = 'null' WHERE key = 'seed'",
    "UPDATE trials SET state = 'SOMETHING'",
    "UPDATE studies SET study_name = 'x', study_id = 7",
    "UPDATE version_info SET schema_version = 3",
]


@pytest.mark.parametrize("statement", DAMAGES)
def test_a_damaged_database_is_one_message(tmp_path, statement):
    path = tmp_path / "study.db"
    study = open_study(file_url(path))
    damage(path, statement)
    for use in (lambda: open_study(file_url(path)), study.records):
        try:
            use()
        except UserError as error:
            assert f"cannot use the database {path} (" in str(error)


@pytest.mark.parametrize("content", [b"text" * 999, b"\0" * 5000])
def test_a_file_that_is_no_database_is_one_message(tmp_path, content):
    path = tmp_path / "study.db"
    path.write_bytes(content)
    assert f"cannot use the database {path} (" in message(file_url(path))


def test_a_flipped_page_or_half_of_a_database_is_one_message(tmp_path):
    path = tmp_path / "study.db"
    open_study(file_url(path))
    content = path.read_bytes()
    for damaged in (content[: len(content) // 2], content[:8192] + b"\xff" * len(content[8192:])):
        path.write_bytes(damaged)
        assert f"cannot use the database {path} (" in message(file_url(path))


def test_a_folder_in_place_of_the_database_is_one_message(tmp_path):
    (tmp_path / "study.db").mkdir()
    assert "cannot use the database" in message(file_url(tmp_path / "study.db"))
    (tmp_path / "file").touch()
    assert "cannot use the database" in message(file_url(tmp_path / "file" / "study.db"))


def test_the_program_never_prints_a_password(tmp_path):
    """A blank after the equals sign makes the URL a positional argument."""
    secret = "postgresql://me:hid/den@/d?host=/nowhere"
    flags = [
        "--config=configs/luong2015.py:data=dates", f"--workdir={tmp_path}/a",
        "--sweep=configs/sweeps/learning_rate.py", "--storage=",
    ]  # fmt: skip
    done = call("sweep.py", *flags, secret, check=False)
    assert done.returncode == 1 and "hid" not in done.stderr, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: unexpected argument")
    flags[-1] += secret
    done = call("sweep.py", *flags, check=False)
    assert done.returncode == 1 and "hid" not in done.stderr, done.stderr
    warning, line = done.stderr.splitlines()
    assert "~/.pgpass" in warning and line.startswith("error: cannot open the database --storage=")


def test_shown_urls_have_no_parameters():
    assert shown(parse_storage("postgresql://me:secret@host:99/d?sslmode=require")) == (
        "postgresql+psycopg2://me:***@host:99/d?..."
    )
