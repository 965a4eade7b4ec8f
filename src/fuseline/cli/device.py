"""``fuseline device``: the machines that fuseline knows, every figure with its source, and this host measured."""

from __future__ import annotations

from typing import Annotated

import typer

from fuseline.cli.options import DeviceFilesOption, JsonOption, LangOption
from fuseline.errors import UsageError
from fuseline.report.json_text import print_json
from fuseline.report.terminal import print_document

app = typer.Typer(
    help="Machines: list them, show one with its sources, compare several, measure this host.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
)


@app.command("list")
def list_devices(device_file: DeviceFilesOption = None, as_json: JsonOption = False, lang: LangOption = None) -> int:
    """List all known machines with their main figures."""
    from fuseline.api.roofline import devices
    from fuseline.report.roofline_devices import devices_document

    found = devices(tuple(device_file or ()))
    if as_json:
        print_json([device.to_dict() for device in found])
    else:
        print_document(devices_document(found, lang))
    return 0


@app.command("show")
def show_device(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A machine, as h100-sxm.")],
    device_file: DeviceFilesOption = None,
    as_json: JsonOption = False,
    lang: LangOption = None,
) -> int:
    """Show every figure of a machine with its kind, confidence and source."""
    from fuseline.api.roofline import device
    from fuseline.report.roofline_devices import device_document

    found = device(name, tuple(device_file or ()))
    if as_json:
        print_json(found.to_dict())
    else:
        print_document(device_document(found, lang))
    return 0


@app.command("compare")
def compare_devices(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Two or more machines.")],
    device_file: DeviceFilesOption = None,
    as_json: JsonOption = False,
    lang: LangOption = None,
) -> int:
    """Lay machines side by side; ratios are to the first."""
    from fuseline.api.roofline import device
    from fuseline.report.catalogue import resolve_language
    from fuseline.report.roofline_devices import comparison, comparison_document

    found = [device(name, tuple(device_file or ())) for name in names]
    if len({machine.name for machine in found}) < max(2, len(found)):
        raise UsageError("compare needs two or more different machines")
    if as_json:
        rows = [
            {"figure": figure, "values": [None if value is None else value.to_dict() for value in values]}
            for figure, values in comparison(found, resolve_language("en"))
        ]
        print_json({"devices": [device.name for device in found], "rows": rows})
    else:
        print_document(comparison_document(found, lang))
    return 0


@app.command("probe")
def probe_host(
    again: Annotated[bool, typer.Option("--again", help="Measure anew although a measurement is kept.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Shorter and less steady.")] = False,
    as_json: JsonOption = False,
    lang: LangOption = None,
) -> int:
    """Measure this host and keep the result: it is then a machine called host."""
    from fuseline.api.roofline import probe
    from fuseline.machine.host import host_file
    from fuseline.report.catalogue import resolve_language, text
    from fuseline.report.roofline_devices import device_document

    language = resolve_language(lang)
    found = probe(again=again, quick=quick)
    if as_json:
        print_json(found.to_dict())
        return 0
    date = found.main_memory.bandwidth.source.date
    kept = text("device.probed", language, date=date, path=host_file())
    print_document(device_document(found, language, kept))
    return 0
