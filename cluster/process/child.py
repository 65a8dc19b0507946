"""Entry point of the processes of a node: `python -m kvorum.cluster.process.child ROLE --config FILE --dir DIR`.

ROLE is node, broker, controller or admin. First a process requests to be killed by the kernel when its parent dies. A
node's process loads the roles' modules and forks them (cluster/process/fork); it runs no event loop itself.
"""

import argparse
import importlib
import os
import sys
from functools import partial

from kvorum.cluster.local.paths import PROCESSES, NodePaths
from kvorum.cluster.local.port_check import TAKEN_SECONDS, port_problem
from kvorum.cluster.local.ports import check_voters_ports, open_ports, read_ports
from kvorum.cluster.process import readiness
from kvorum.cluster.process.exits import Exit, fault_exit, folder_problem
from kvorum.runtime.config import ConfigError, Settings
from kvorum.runtime.config_files import load_node
from kvorum.runtime.disk import OsDisk
from kvorum.runtime.logs import get_logger
from kvorum.runtime.process import die_with_parent, raise_open_files_limit
from kvorum.security.settings import is_plaintext

log = get_logger("cluster")

ADMIN_NICENESS = 5
"""Priority of the admin process: lower than that of controller and broker, in particular during the start."""


def settings_of(config: str, paths: NodePaths, overrides: list[str]) -> Settings:
    """Return the node's settings: its file, environment, overrides, and the ports that `format` chose."""
    chosen = read_ports(paths)
    if chosen:
        chosen = open_ports(chosen, load_node(config, overrides=overrides, check=False).settings)
    loaded = load_node(config, overrides=[*chosen, *overrides])
    check_voters_ports(loaded.settings)
    for warning in loaded.warnings:
        log.warning(warning)
    return loaded.settings


def warn_of_security(settings: Settings) -> None:
    """Log warnings about the security of a node. Raises ConfigError: it cannot work."""
    from kvorum.security.config_checks import check_security

    for warning in check_security(settings):
        log.warning(warning)


def run_supervisor(settings: Settings, paths: NodePaths, config: str, overrides: list[str], to_files: bool) -> int:
    """Run the node process: one child a role, and the admin process where the configuration wants one."""
    from kvorum.cluster.process.supervisor import Child, Supervisor

    configured = settings.list("process.roles")
    roles: list[str] = [role for role in ("controller", "broker") if role in configured]
    if settings.list("admin.listeners"):
        roles.append("admin")
    common = ["--config", config, "--dir", paths.folder, *(f"--override={item}" for item in overrides)]
    children = [
        Child(
            role,
            partial(main, [role, *common]),
            paths.log(role) if to_files else None,
            partial(load, role),
            data_folders(settings, role),
        )
        for role in roles
    ]
    with OsDisk().lock(paths.lock) as held:
        if not held:
            return refuse(f"{paths.name} is already running: another process holds {paths.lock}", Exit.BUSY)
        problem = port_problem(settings, TAKEN_SECONDS)
        if problem is not None:
            reason = f"{problem.of_node(paths.name)}; choose another in {config}"
            if problem.is_taken:
                return refuse(f"{reason}, or stop the process that uses it", Exit.BUSY)
            return refuse(reason, Exit.CONFIG)
        return Supervisor(paths, children).run()


def refuse(reason: str, code: Exit) -> Exit:
    """Report in one line why this process does not start, and return its exit code."""
    print(f"kvorum: {reason}", file=sys.stderr, flush=True)
    readiness.report_refusal(reason)
    return code


def data_folders(settings: Settings, role: str) -> tuple[str, ...]:
    """Return where a role keeps its data."""
    from kvorum.cluster.local.formatting import controller_directory

    if role == "controller":
        return (controller_directory(settings),)
    return (*settings.list("log.dirs"), settings.str("metadata.log.dir")) if role == "broker" else ()


def load(role: str) -> None:
    """Load a role's modules, so that its process, a fork of this one, has them."""
    importlib.import_module(f"kvorum.cluster.process.{role}_process")


def run(role: str, settings: Settings, paths: NodePaths) -> int:
    """Run one role in this process until it receives a stop signal; return the exit code."""
    match role:
        case "broker":
            from kvorum.cluster.process.broker_process import run_broker

            return run_broker(settings, paths)
        case "controller":
            from kvorum.cluster.process.controller_process import run_controller

            return run_controller(settings, paths)
        case _:
            os.nice(ADMIN_NICENESS)
            from kvorum.cluster.process.admin_process import run_admin

            return run_admin(settings, paths)


def main(arguments: list[str] | None = None) -> int:
    """Read the command line, run the process."""
    parser = argparse.ArgumentParser(prog="kvorum.cluster.process.child")
    parser.add_argument("role", choices=PROCESSES)
    parser.add_argument("--config", required=True)
    parser.add_argument("--dir", required=True)
    parser.add_argument("--override", action="append", default=[])
    parser.add_argument("--log-to-stderr", action="store_true")
    options = parser.parse_args(arguments)
    parent = os.environ.pop("KVORUM_PARENT_PID", "")
    if parent:
        die_with_parent(int(parent))
    raise_open_files_limit()
    paths = NodePaths(os.path.abspath(options.dir))
    try:
        os.makedirs(paths.folder, exist_ok=True)
        settings = settings_of(options.config, paths, options.override)
        if options.role == "node" and not is_plaintext(settings):
            warn_of_security(settings)
    except ConfigError as error:
        return refuse(str(error), Exit.CONFIG)
    except OSError as error:
        return refuse(folder_problem(error, paths.folder), Exit.DATA_REFUSED)
    if options.role == "node":
        try:
            return run_supervisor(settings, paths, options.config, options.override, not options.log_to_stderr)
        except OSError as error:
            code, reason = fault_exit(error, paths.folder)
            return refuse(reason, code)
    return run(options.role, settings, paths)


if __name__ == "__main__":
    sys.exit(main())
