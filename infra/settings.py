"""The only reader of the environment. Every setting has a type, a bound and a default that runs on a laptop."""

import ipaddress
import os
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

PROJECT = Path(__file__).resolve().parent.parent
"""The checkout, or site-packages when installed as a wheel."""


class Settings(BaseSettings):
    """All of Holdfast's settings; the environment's names are these in capitals behind `HOLDFAST_`.

    A part whose address is given here is used and not started by `holdfast up`.

    Attributes:
        home: Everything the embedded stack writes: data, sockets, logs, ports, secrets.
        database_url: A Postgres of your own; None starts the embedded one.
        database_pool_max: Connections of one process.
        temporal_address: `host:port` of a server of your own; None starts the embedded one.
        temporal_api_key: For Temporal Cloud or an authenticating proxy.
        temporal_tls: Whether to speak TLS to `temporal_address`.
        temporal_file: Where `temporal.yaml` lies.
        temporal_ui_url: Base of the Web UI, for links; None when there is none.
        object_store_url: `s3://…`, `gs://…`, `az://…` or `file:///…`; None keeps blobs under `home`.
        api_host: Where the API listens.
        api_port: 0 lets the supervisor choose a free one.
        api_public_url: How clients reach it; None means `http://api_host:api_port`.
        api_internal_url: How hosts reach `/internal/v1`; None means the public one.
        session_secret: Signs sessions. `holdfast up` makes one for the embedded stack.
        signing_secret: Signs blob addresses; as above.
        host_token: What hosts show at `/internal/v1`; as above.
        receipt_key: Signs receipts: an Ed25519 seed, 32 bytes in URL-safe base64. `holdfast up` makes one.
        order_key: Signs what hosts are told to do; a seed as above. For the API alone.
        order_public_keys: By which hosts check it: public halves in URL-safe base64, comma separated; two while
            keys are changed. Without any a host runs nothing.
        trusted_proxies: Networks of your proxies, comma separated; they are believed about a caller's address.
        session_hours: A session's length.
        legacy_credit_status: True answers 429 in place of 402 for `insufficient_credits`, as an older system did.
        upload_bytes_max: The largest part of a multipart body.
        in_flight_max: Open generations of one account.
        duplicate_window_s: The same body of the same account under another operation id within so many seconds is
            answered with the task that is there; 0 makes a task for each id.
        sync_wait_s: How long a synchronous creation waits for its result before it answers 504 with the ids.
            Under the 60 s after which common proxies cut a silent request.
        embedded: True for processes that `holdfast up` started.
        cpu_cards: CPU cards of this host, each with an engine of its own; they share its cores and memory evenly.
        cpu_threads: Threads of the native engine on a CPU card; 0 means all cores, divided by the cards.
        engine: `native`, or `fake` for drills: the shipped engine that misbehaves by script.
        nvml_recording: Told in place of what the driver says, for drills: as `infra/gpu/recording.jsonl`. With
            `engine=fake` its cards take work.
        fake_scripts: What the fake engine does, run after run, comma separated; the last repeats.
        metrics_port: Where `/metrics` is answered: the API here, the orchestrator one higher, the media worker
            two; 0 answers nowhere.
        metrics_host: The address to answer it at; never one that callers reach.
        fault_points: Names of deliberate crash points, comma separated; only tests and drills set it.
    """

    model_config = SettingsConfigDict(env_prefix="HOLDFAST_", extra="ignore", frozen=True)

    home: Path = PROJECT / ".holdfast"
    database_url: SecretStr | None = None
    database_pool_max: Annotated[int, Field(ge=2, le=100)] = 8
    temporal_address: str | None = None
    temporal_api_key: SecretStr | None = None
    temporal_tls: bool = False
    temporal_file: Path = PROJECT / "temporal.yaml"
    temporal_ui_url: str | None = None
    object_store_url: str | None = None
    api_host: str = "127.0.0.1"
    api_port: Annotated[int, Field(ge=0, le=65535)] = 0
    api_public_url: str | None = None
    api_internal_url: str | None = None
    session_secret: SecretStr = SecretStr("")
    signing_secret: SecretStr = SecretStr("")
    host_token: SecretStr = SecretStr("")
    receipt_key: SecretStr = SecretStr("")
    order_key: SecretStr = SecretStr("")
    order_public_keys: str = ""
    trusted_proxies: str = ""
    session_hours: Annotated[int, Field(ge=1, le=24 * 30)] = 12
    legacy_credit_status: bool = False
    upload_bytes_max: Annotated[int, Field(ge=1)] = 50 * 1024 * 1024
    in_flight_max: Annotated[int, Field(ge=1)] = 100
    duplicate_window_s: Annotated[float, Field(ge=0, le=3600)] = 10.0
    sync_wait_s: Annotated[float, Field(gt=0, le=600)] = 55.0
    embedded: bool = False
    cpu_cards: Annotated[int, Field(ge=1, le=16)] = 1
    cpu_threads: Annotated[int, Field(ge=0, le=256)] = 0
    engine: Literal["native", "fake"] = "native"
    nvml_recording: Path | None = None
    fake_scripts: str = "good"
    metrics_port: Annotated[int, Field(ge=0, le=65_000)] = 0
    metrics_host: str = "127.0.0.1"
    fault_points: str = ""

    @field_validator("home", "temporal_file")
    @classmethod
    def _absolute(cls, path: Path) -> Path:
        """Parts run elsewhere than where the operator stands."""
        return path.expanduser().absolute()

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, text: str) -> str:
        """One that is none would be noticed only when a caller is refused."""
        for network in _listed(text):
            ipaddress.ip_network(network)
        return text

    @cached_property
    def trusted_networks(self) -> tuple[str, ...]:
        """`trusted_proxies`, one by one."""
        return _listed(self.trusted_proxies)

    @cached_property
    def order_keys(self) -> tuple[str, ...]:
        """`order_public_keys`, one by one."""
        return _listed(self.order_public_keys)

    @cached_property
    def public_url(self) -> str:
        """Base address that clients use, without a trailing slash."""
        return (self.api_public_url or f"http://{self.api_host}:{self.api_port}").rstrip("/")

    @cached_property
    def internal_url(self) -> str:
        """Base address that hosts use, without a trailing slash."""
        return (self.api_internal_url or self.public_url).rstrip("/")

    @cached_property
    def temporal(self) -> dict[str, object]:
        """The parsed `temporal.yaml`."""
        loaded = yaml.safe_load(self.temporal_file.read_text())
        if not isinstance(loaded, dict):
            msg = f"{self.temporal_file} holds no mapping"
            raise TypeError(msg)
        return loaded


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def environment_for_engines() -> dict[str, str]:
    """The environment for an engine's process: ours without our settings, since it needs no secret of them."""
    return {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
