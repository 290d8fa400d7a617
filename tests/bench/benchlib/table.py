"""Results as a table for people and as JSON for programs."""

import json


def target_text(target):
    what = "CPU of " if target.field == "cpu" else ""
    if target.at_most:
        return f"at most {target.factor:g}x {what}{target.tool}"
    return f"at least {target.factor:g}x faster than {what}{target.tool}"


def rows_of(workload, series):
    """A dictionary for one workload: every tool's figures, and for each target what was measured."""
    by_name = {one.tool: one for one in series}
    own = by_name.get("millwright")
    targets = []
    for target in workload.targets:
        value = target.measured(by_name)
        targets.append({"target": target_text(target), "measured": None if value is None else round(value, 2),
                        "met": None if value is None else target.met(value)})
    tools = []
    for one in series:
        entry = one.as_json()
        if one.samples and own is not None and own.samples:
            entry["times_millwright"] = round(one.median() / own.median(), 2)
        tools.append(entry)
    return {"name": workload.name, "title": workload.title, "tools": tools, "targets": targets}


def markdown(results):
    lines = ["| work | millwright | others: seconds (times millwright) | target: measured |", "|---|---|---|---|"]
    for row in results.get("workloads", []):
        own = next((tool for tool in row["tools"] if tool["tool"] == "millwright"), {})
        others = []
        for tool in row["tools"]:
            if tool is own:
                continue
            if "wall_median" not in tool:
                others.append(f"{tool['tool']} failed")
            else:
                others.append(f"{tool['tool']} {tool['wall_median']:.2f} ({tool.get('times_millwright', '?')}x)")
        goals = [f"{goal['target']}: {goal['measured']}{'' if goal['met'] else ' (missed)'}" for goal in row["targets"]
                 if goal["measured"] is not None]
        mine = f"{own['wall_median']:.3f} s" if "wall_median" in own else "failed"
        lines.append(f"| {row['title']} | {mine} | {'; '.join(others)} | {'; '.join(goals)} |".replace("tar | ssh",
                                                                                                       "tar \\| ssh"))
    for row in results.get("growth", []):
        lines.append(f"| {row['instances']:,} step instances | lint {row['lint']:.3f} s, plan {row['plan']:.3f} s | | "
                     + ("under 0.5 s |" if row["instances"] == 10_000 else "linear |"))
    if "held" in results:
        held = results["held"]
        lines.append(f"| {held['connections']:,} connections held | {held['mib_each']:.3f} MiB each | | under 0.2 MB |")
    return "\n".join(lines) + "\n"


def write(results, folder):
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / "results.md").write_text(markdown(results))
