"""Every table and figure of the papers that the data at hand allow, beside ours.

BAYESFAIR_DATA=.../uci python -m benchmarks.paper fmc|vfc|biglearn|tkm|gibbs|all [--seeds 5] [--out paper-output]

Writes one page with its pictures for each paper; a part that runs again replaces its own rows. Census 1990,
Diabetes 130-US and FashionMNIST are used where they are in BAYESFAIR_DATA, and are otherwise named as needed.
"""

import argparse
import time
from importlib import import_module

from .sheet import Sheet

PAPERS = "fmc", "vfc", "biglearn", "tkm", "gibbs"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("papers", nargs="+", choices=[*PAPERS, "all"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", default="paper-output")
    parser.add_argument("--only", help="of each paper the parts whose name has this in it, such as table_3")
    arguments = parser.parse_args()
    for name in PAPERS if "all" in arguments.papers else arguments.papers:
        module, start = import_module(f".{name}", __package__), (time.perf_counter(), time.process_time())
        sheet = Sheet(name, module.TITLE, arguments.out, arguments.seeds)
        for part in module.PARTS:
            if not arguments.only or arguments.only in part.__name__:
                sheet.begin(part.__name__)
                part(sheet)
        spent = time.perf_counter() - start[0], time.process_time() - start[1]
        print(f"{name}: {spent[0]:.0f} s, {spent[1]:.0f} processor s; {arguments.out}/{name}.md", flush=True)


if __name__ == "__main__":
    main()
