#!/usr/bin/env python3
"""Differential test: random TileDB arrays and random SQL, `tiledb-sql` against libtiledb. See README.md."""

import argparse
import collections
import concurrent.futures
import glob
import os
import pickle
import random
import re
import shutil
import sys
import tempfile
import time

import compare
import expressions
import oracle
import queries
from history import KEY
from shell import Ask, Shell

PARTITIONS, BATCH_SIZES = [1, 4, 16], [1, 7, 8192]
PLAIN = ["SET datafusion.execution.target_partitions = 1", "SET datafusion.execution.batch_size = 8192"]


class Result:
    """What one case came to."""

    def __init__(self, seed):
        self.seed, self.dropped, self.features, self.asked, self.failures, self.refused = seed, None, set(), collections.Counter(), [], 0
        self.not_yet = collections.Counter()  # what the release says, in so many words, that it does not do
        self.tally = collections.Counter()  # histories: how libtiledb and the model got along
        self.blamed = collections.Counter()  # wrong answers that are DataFusion's own: it gives them over rows in memory, too


class Planned:
    """A question with everything needed to check and report it; `twin` is the same one asked of DataFusion over the oracle's rows."""

    def __init__(self, question, ask, view, number, twin=None):
        self.question, self.ask, self.view, self.number, self.twin = question, ask, view, number, twin


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", default="1", help="first part of every case's seed; one that begins with h makes histories, e.g. h1; with o histories begun by old releases")
    parser.add_argument("--libraries", default=os.environ.get("TILEDB_LIBRARIES"), help="folder of folders with old libtiledb shared libraries, for the o seeds (or TILEDB_LIBRARIES)")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--case", action="append", help="run exactly this case, e.g. 1:17 (repeatable)")
    parser.add_argument("--binary", default=os.environ.get("TILEDB_SQL", "tiledb-sql"), help="the shell under test (or TILEDB_SQL)")
    parser.add_argument("--keep", default=None, help="where failures are saved")
    parser.add_argument("--keep-all", action="store_true", help="save passing cases too")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--queries", type=int, default=12, help="random questions per time window")
    parser.add_argument("--history-queries", type=int, default=4, help="the same for histories, which have more windows")
    parser.add_argument("--disputes", help="show (and keep) the cases of disputes whose text holds this")
    parser.add_argument("--expressions", type=int, default=6, help="random statements per time window that DataFusion over the oracle's rows answers, too")
    parser.add_argument("--batch", type=int, default=8, help="cases per process of the shell")
    parser.add_argument("--feature", action="append", default=[], help="only cases having this feature (repeatable), e.g. dense, hilbert")
    parser.add_argument("--blamed", action="store_true", help="print the wrong answers that are DataFusion's own")
    parser.add_argument("--write-models", action="store_true", help="write the oracle's rows as Arrow files beside each array")
    return parser.parse_args()


def plan_case(seed, case, folder, options):
    """The questions of a case, view by view."""
    rng, plans, histories = random.Random(seed + ":queries"), [], seed[0] in "ho"
    shell_settings = lambda: [f"SET datafusion.execution.target_partitions = {rng.choice(PARTITIONS)}", f"SET datafusion.execution.batch_size = {rng.choice(BATCH_SIZES)}"]
    for number, view in enumerate(case["views"]):
        fields, columns = view.fields, view.columns
        table, create = table_for(rng, view)
        if view.must_refuse:
            asked = [queries.refusal(view.must_refuse)]
        elif view.quarrel:
            asked = [queries.disputed(fields, columns, view.rival)]
        else:
            asked = queries.whole_table(fields, columns) + queries.random_questions(rng, fields, columns, options.history_queries if histories else options.queries)
            statements = options.expressions if not histories else int(rng.random() < 0.3)
            asked += [queries.Question(*expressions.random_statement(rng, fields, columns), None) for _ in range(statements)] if columns[0] else []
        asked += [queries.metadata(view)] if view.metadata is not None else []
        prelude = [*shell_settings(), *create]
        for index, question in enumerate(asked):
            prelude = prelude if histories else [*shell_settings(), *create]  # histories have more views: one table for all questions
            out = os.path.join(folder, f"w{number}_q{index}.arrow")
            plans.append(Planned(question, Ask(prelude, question.select.replace("{T}", table), out), view, number))
            if question.check is None:
                plans[-1].twin = over_model(plans[-1], folder)
    return plans


def table_for(rng, view):
    """(the table's name in SQL, the statements that make it): the path itself, or an external table with a time window."""
    uri, start, end, more = view.uri, view.start, view.end, view.more
    if start == 0 and end is None and not more and rng.random() < 0.7:
        return f"'{uri}'", []
    options = [f"'tiledb.timestamp_start' '{start}'"] if start else []
    options += [f"'tiledb.timestamp_end' '{end}'"] if end is not None else []
    options += [f"'{key}' '{value}'" for key, value in more.items()]
    with_options = f" OPTIONS ({', '.join(options)})" if options else ""
    return "t", ["DROP TABLE IF EXISTS t", f"CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{uri}'{with_options}"]


def run_batch(seeds, options, work):
    """Makes the arrays of some seeds, asks all their questions in one process, checks the answers."""
    shell, results, cases, everything = Shell(options.binary.split(), variables={"TILEDB_ENCRYPTION_KEY": KEY}), [], {}, []
    for seed in seeds:
        result, folder = Result(seed), os.path.join(work, seed.replace(":", "_"))
        results.append(result)
        case = oracle.case_in_child(seed, folder, options.releases)
        wanted = set(options.feature)
        result.features = case.get("features", set())
        if "views" not in case or not wanted <= result.features:
            result.dropped = case.get("broken") or case.get("dropped") or "feature not wanted"
            result.failures = [("tool", case["broken"])] if "broken" in case else []
            shutil.rmtree(folder, ignore_errors=True)
            continue
        result.tally = case.get("tally", result.tally)
        if options.write_models:
            for number, view in enumerate(case["views"]):
                model_file(view, number, folder)
        plans = plan_case(seed, case, folder, options)
        cases[seed] = (case, folder, plans)
        everything += plans
    answers = shell.run([p.ask for p in everything] + [p.twin for p in everything if p.twin], os.path.join(work, f"script_{seeds[0].replace(':', '_')}.sql")) if everything else {}
    for result in results:
        if result.seed in cases:
            judge(result, *cases[result.seed], answers, shell, options)
    return results


def model_file(view, number, folder):
    path = os.path.join(folder, f"model_{number}.arrow")
    if not os.path.exists(path):
        compare.write_model(path, view.fields, view.columns, view.more.get("tiledb.empty_cells") == "null")
    return path


def judge(result, case, folder, plans, answers, shell, options):
    for plan in plans:
        result.asked[plan.question.kind] += 1
        if plan.twin:
            verdict, text = compare_twins(plan, answers[plan.ask.out], answers[plan.twin.out], shell)
        else:
            verdict, text = judge_one(plan, answers.get(plan.ask.out), folder, shell)
        if verdict == "refused":
            result.refused += 1
        elif verdict == "not yet":
            result.not_yet[text] += 1
        elif verdict == "disputed":
            result.tally[text] += 1
            if options.disputes and options.disputes in text:
                result.failures.append((verdict, report(plan, text)))
        elif verdict == "datafusion":
            result.blamed[plan.question.kind] += 1
            if options.blamed:
                print(f"[{result.seed}] DataFusion's own: {report(plan, text)}", file=sys.stderr)
        elif verdict:
            result.failures.append((verdict, report(plan, text)))
    if (result.failures or options.keep_all) and options.keep:
        save(result, case, folder, options.keep)
    shutil.rmtree(folder, ignore_errors=True)


def judge_one(plan, answer, folder, shell):
    """(None, "") when right; ("not yet", …) when the release says it cannot do it; ("refused", …) when DataFusion itself cannot do it; ("datafusion", …) when it is wrong by itself;
    otherwise the class of failure and its text."""
    if answer.failure == "error" and plan.question.kind == "must refuse" and plan.view.must_say in answer.message:
        return None, ""
    if says_not_yet(answer):
        return "not yet", says_not_yet(answer)
    if plan.question.kind == "disputed" and answer.failure in (None, "error"):
        side = check(plan, answer) if answer.failure is None else "neither, by the error: " + oracle.plain(answer.message)
        return "disputed", f"disputed ({plan.view.quarrel}): we agree with {side}"
    if answer.failure is None:
        wrong = check(plan, answer)
        if wrong is None:
            return None, ""
        verdict = "wrong " + plan.question.kind
    else:
        verdict, wrong = f"{answer.failure} in {plan.question.kind}", answer.message
    if plan.question.kind in ("whole table", "must refuse", "disputed", "metadata"):
        return verdict, wrong
    return referee(plan, verdict, wrong, folder, shell)


def says_not_yet(answer):
    """What the release says it does not do, or None."""
    if answer.failure == "error":
        for sign in ("not supported: ", "table function 'tiledb_"):
            if sign in answer.message:
                return oracle.plain(answer.message[answer.message.index(sign) :].split("\n")[0].replace("'", ""))
    return None


def check(plan, answer):
    table = answer.table
    if table is None:
        table = NoRows()
    try:
        return plan.question.check(table)
    except UnicodeDecodeError as fault:
        return f"the answer holds text that is not UTF-8: {fault}"


class NoRows:
    """Stands in for an answer that left no file."""

    columns, schema = [], None


def referee(plan, verdict, wrong, folder, shell):
    """Asks DataFusion the same question over the oracle's own rows: tells a wrong scan from a wrong expectation."""
    ask = over_model(plan, folder)
    answer = shell.run([ask], plan.ask.out + ".referee.sql")[ask.out]
    if answer.failure:
        if "error" in verdict:
            return "refused", ""
        return verdict, wrong + f"\n(the referee failed: {answer.message[:500]})"
    doubt = check(plan, answer)
    if doubt is None:
        return verdict, wrong + "\n(DataFusion over the oracle's rows gives the expected answer)"
    if literal := plan.question.literal():
        ask.sql = literal.replace("{T}", "m")
        answer = shell.run([ask], plan.ask.out + ".referee.sql")[ask.out]
        if answer.failure is None and check(plan, answer) is None:
            return "datafusion", wrong  # its optimizer changes the meaning
    return "doubtful: " + verdict, wrong + f"\n(DataFusion over the oracle's rows disagrees with the expectation, too: {doubt})"


def over_model(plan, folder):
    """The same question, asked of DataFusion over the oracle's rows."""
    model = model_file(plan.view, plan.number, folder)
    prelude = [*PLAIN, "DROP TABLE IF EXISTS m", f"CREATE EXTERNAL TABLE m STORED AS ARROW LOCATION '{model}'"]
    return Ask(prelude, plan.question.select.replace("{T}", "m"), plan.ask.out + ".referee.arrow")


def compare_twins(plan, answer, twin, shell):
    """A question that only DataFusion can answer: what matters is that the scan makes no difference."""
    kind = plan.question.kind
    if twin.failure:  # it may fail on rows that a scan rightly leaves out
        return ("panic in " + kind, answer.message) if answer.failure == "panic" else ("refused", "")
    if says_not_yet(answer):
        return "not yet", says_not_yet(answer)
    if answer.failure:
        return f"{answer.failure} in {kind}", answer.message
    wrong = compare.row_difference(rows_or_none(twin), rows_or_none(answer))
    if wrong is None:
        return None, ""
    # DataFusion may contradict itself: with these settings over rows in memory, and not over the array with plain ones.
    script = plan.ask.out + ".again.sql"
    plain = Ask([*PLAIN, *plan.ask.prelude[2:]], plan.ask.sql, plan.ask.out + ".plain.arrow")
    same_settings = Ask(plan.ask.prelude[:2] + plan.twin.prelude[2:], plan.twin.sql, plan.ask.out + ".settings.arrow")
    right = lambda a: a.failure is None and compare.row_difference(rows_or_none(twin), rows_or_none(a)) is None
    if hidden := with_hidden_condition(plan.twin.sql):
        hidden = Ask(plan.twin.prelude, hidden, plan.twin.out + ".hidden.arrow")
        told = shell.run([hidden], script)[hidden.out]
        if told.failure is None and compare.row_difference(rows_or_none(told), rows_or_none(answer)) is None:
            return "datafusion", wrong
    if right(shell.run([plain], script)[plain.out]):
        if not right(shell.run([same_settings], script)[same_settings.out]):
            return "datafusion", wrong
        return f"wrong {kind} (right with plain settings)", wrong
    return "wrong " + kind, wrong


def with_hidden_condition(sql):
    """The same question with a condition that DataFusion draws no conclusions from. It takes a column that is compared by its rounded value for constant, and leaves it out of the order."""
    parts = re.fullmatch(r"(.* WHERE )(.*)( ORDER BY .*)", sql, re.DOTALL)
    return f"{parts[1]}({parts[2]}) OR random() > 2{parts[3]}" if parts else None


def rows_or_none(answer):
    return [] if answer.table is None else compare.rows_of(answer.table)


def report(plan, text):
    return "\n".join([";\n".join(plan.ask.prelude + [plan.ask.sql]) + ";", text, ""])


def save(result, case, folder, keep):
    target = os.path.join(keep, result.seed.replace(":", "_"))
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)
    lines = [f"seed {result.seed}: run.py --case {result.seed}", "", *case["notes"], f"windows {[(v.uri, v.start, v.end, len(v.columns[0]) if v.columns else None, v.more) for v in case['views']]}", ""]
    for verdict, text in result.failures:
        lines += [f"=== {verdict}", text.replace(folder, target)]
    with open(os.path.join(target, "report.txt"), "w", encoding="utf-8", errors="backslashreplace") as out:
        out.write("\n".join(lines))


def summary(results, seconds):
    kept = [r for r in results if not r.dropped]
    dropped = collections.Counter(r.dropped for r in results if r.dropped)
    failed = [r for r in results if r.failures]
    by_feature = collections.defaultdict(lambda: [0, 0])
    for result in kept:
        for feature in result.features:
            by_feature[feature][bool(result.failures)] += 1
    print("\nfeature: cases passed / failed")
    for feature, (good, bad) in sorted(by_feature.items(), key=lambda item: (-item[1][1], item[0])):
        print(f"  {feature:40} {good:6} / {bad}")
    asked = sum((r.asked for r in kept), collections.Counter())
    print("questions: " + ", ".join(f"{n} {k}" for k, n in asked.most_common()) + f"; {sum(r.refused for r in kept)} that DataFusion itself refuses")
    if blamed := sum((r.blamed for r in kept), collections.Counter()):
        print("wrong answers that DataFusion gives over rows in memory, too: " + ", ".join(f"{n} {k}" for k, n in blamed.most_common()))
    if not_yet := sum((r.not_yet for r in kept), collections.Counter()):
        for text, n in not_yet.most_common():
            print(f"not yet {n:6} x {text}   e.g. {', '.join([r.seed for r in kept if text in r.not_yet][:4])}")
    if tally := sum((r.tally for r in kept), collections.Counter()):
        print("views of histories:")
        for text, n in tally.most_common():
            print(f"  {n:6} x {text}   e.g. {', '.join([r.seed for r in kept if text in r.tally][:4])}")
    for reason, count in dropped.most_common(12):
        print(f"dropped {count}: {reason[:150]}")
    classes = collections.Counter(verdict for r in failed for verdict, _ in r.failures)
    for verdict, count in classes.most_common():
        print(f"failure {count:6} x {verdict}   e.g. {', '.join([r.seed for r in failed if any(v == verdict for v, _ in r.failures)][:6])}")
    print(f"{len(kept) - sum(1 for r in failed if not r.dropped)} passed, {len(failed)} failed, {sum(dropped.values())} dropped, {seconds:.0f} s")
    return 1 if failed else 0


def main():
    options = arguments()
    if not shutil.which(options.binary.split()[0]):
        sys.exit(f"no shell to test at {options.binary!r}: give --binary or set TILEDB_SQL")
    options.releases = old_releases(options.libraries)
    if not options.releases and any(s.startswith("o") for s in options.case or [options.seed]):
        sys.exit("seeds that begin with o need --libraries")
    seeds = options.case or [f"{options.seed}:{i}" for i in range(options.first, options.first + options.cases)]
    batches = [seeds[i : i + options.batch] for i in range(0, len(seeds), options.batch)]
    began, results = time.time(), []
    room = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="tiledb-diff-", dir=room) as work, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        # Threads only wait; each batch lives in a process of its own so that libtiledb never runs here.
        for part in pool.map(lambda b: in_process(b, options, work), batches):
            results += part
            for result in part:
                for verdict, text in result.failures[:2]:
                    print(f"[{result.seed}] {verdict}: {text.strip()[-600:] if verdict == 'tool' else first_line(text)}", flush=True)
    return summary(results, time.time() - began)


def old_releases(folder):
    """The libraries in `FOLDER/tiledb-<version of the wheel>/libtiledb…`, the oldest first."""
    if not folder:
        return []
    folders = sorted((n for n in os.listdir(folder) if n.startswith("tiledb-")), key=lambda n: [int(part) for part in n[7:].split(".")])
    return [glob.glob(os.path.join(folder, n, "libtiledb*"))[0] for n in folders]


def first_line(text):
    lines = [line for line in text.splitlines() if line and not line.endswith(";")]
    return lines[0][:300] if lines else ""


def in_process(seeds, options, work):
    """Runs a batch in a fresh interpreter; a broken batch is a failure of the tool, with its text."""
    import subprocess

    task = os.path.join(work, f"task_{seeds[0].replace(':', '_')}.pkl")
    with open(task, "wb") as out:
        pickle.dump((seeds, options, work), out)
    done = subprocess.run([sys.executable, os.path.abspath(__file__), "--batch-task", task], capture_output=True)
    if options.blamed:
        sys.stdout.write(done.stderr.decode(errors="replace"))
    if done.returncode == 0:
        with open(task, "rb") as source:
            return pickle.load(source)
    broken = Result(seeds[0])
    broken.failures, broken.dropped = [("tool", f"exit {done.returncode} " + done.stderr.decode(errors="replace")[-3000:] + "\n ")], "tool failure"
    return [broken]


def batch_task(task):
    with open(task, "rb") as source:
        seeds, options, work = pickle.load(source)
    results = run_batch(seeds, options, work)
    with open(task, "wb") as out:
        pickle.dump(results, out)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--batch-task"]:
        batch_task(sys.argv[2])
    else:
        sys.exit(main())
