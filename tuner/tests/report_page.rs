//! `tilewright report`: the page is whole, well-formed, refers to nothing, and holds every row.

mod table_fixture;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use table_fixture::decisions;
use tilewright::journal::{
    ContestKey, DeviceRecord, Evaluated, Journal, Record, RunHeader, Verdict, VerdictRow,
};
use tilewright::table::{Decisions, Finalist, Status, write_all};
use tilewright_kernels::config::fnv1a;

fn evidence(decisions: &Decisions) -> Vec<Finalist> {
    let mut finalists = Vec::new();
    for weight in &decisions.weights {
        for row in &weight.rows {
            let finalist = |status, ratio: f64, config: &str, reason: &str| Finalist {
                weight: weight.name.clone(),
                m: row.m,
                activation: weight.activation.name().into(),
                format: weight.format.name().into(),
                status,
                baseline: config == row.default,
                ratio: Some(ratio),
                ratio_low: Some(ratio - 0.01),
                ratio_high: Some(ratio + 0.01),
                time_ns: Some(row.time_ns * ratio),
                samples: 24,
                config: config.into(),
                id: "0123456789abcdef".into(),
                reason: reason.into(),
            };
            finalists.push(finalist(Status::Winner, 1.0, &row.config, ""));
            finalists.push(finalist(Status::Eliminated, 4.0, &row.default, "slower & <late>"));
        }
    }
    finalists
}

fn sample(candidate: &str, ns: f64, at_s: f64) -> Record {
    Record::Sample { id: format!("{:016x}", fnv1a(candidate.as_bytes())), ns, at: at_s * 1e9 }
}

/// Two runs of one contest: 40 and 12 launches, in the second of which the machine becomes slower.
fn journal(path: &Path, decisions: &Decisions) {
    let (mut journal, _) = Journal::open(path).unwrap();
    let (weight, row) = (&decisions.weights[0], &decisions.weights[0].rows[0]);
    let formats = format!("{}/{}", weight.activation, weight.format);
    let (winner, default) = (format!("{formats} {}", row.config), format!("{formats} {}", row.default));
    let bias = weight.epilogue == tilewright_kernels::Epilogue::Bias;
    let key = ContestKey(format!(
        "m={} n={} k={} out={} bias={bias} deterministic={} {formats}",
        row.m, weight.n, weight.k, weight.out, weight.deterministic
    ));
    for (seed, launches) in [(1, 40u32), (2, 12)] {
        journal
            .append(&Record::Run(RunHeader {
                version: "0.1.0".into(),
                fingerprint: decisions.device.fingerprint.clone(),
                device: DeviceRecord {
                    backend: "cpu".into(),
                    model: "m".into(),
                    features: vec![],
                    caps: vec![],
                    units: 2,
                    caches_kib: [48, 2048, 16384],
                },
                declaration: "0".into(),
                tables: "0".into(),
                seed,
                budget_s: None,
                per_gemm_s: None,
                part: None,
                regime: "cold".into(),
                resolution_ns: 20.0,
                tools: Default::default(),
            }))
            .unwrap();
        journal.append(&Record::Contest { key: key.clone(), candidates: 77 }).unwrap();
        let half = launches / 2;
        for launch in 0..launches {
            let late = launch >= half && seed == 2;
            let slow = if late { 1.5 } else { 1.0 };
            journal.append(&sample(&default, 1000.0 * slow, f64::from(launch))).unwrap();
            if launch + 1 == half {
                let evaluated = Evaluated {
                    key: key.clone(),
                    candidate: winner.clone(),
                    ratio: Some(0.5),
                    launches: half,
                    reason: None,
                };
                journal.append(&Record::Evaluated(evaluated)).unwrap();
                journal
                    .append(&Record::Gate { candidate: "x".into(), reason: Some("row 3 is NaN".into()) })
                    .unwrap();
                journal.append(&Record::Plan(plan())).unwrap();
            }
        }
        let finalist = |candidate: &str, ns: f64, status: &str, default| VerdictRow {
            candidate: candidate.into(),
            launches: 12,
            ns,
            interval_ns: [ns * 0.99, ns * 1.01],
            ratio: [1.0; 3],
            status: status.into(),
            reason: String::new(),
            default,
        };
        journal
            .append(&Record::Verdict(Verdict {
                key: key.clone(),
                m: row.m,
                verdict: "decided".into(),
                finalists: vec![
                    finalist(&winner, 500.0 * f64::from(seed as u32), "winner", false),
                    finalist(&default, 1000.0, "eliminated", true),
                ],
            }))
            .unwrap();
        journal.append(&Record::End { measurements: launches.into(), evaluations: 1 }).unwrap();
    }
}

fn plan() -> tilewright::journal::PlanRecord {
    tilewright::journal::PlanRecord {
        work: "w".into(),
        plan: "p".into(),
        error: 0.0,
        second: None,
        alternatives: vec![],
    }
}

/// A folder with a table, evidence and journal of it.
fn folder(decisions: &Decisions) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_all(folder.path(), decisions, &evidence(decisions)).unwrap();
    journal(&folder.path().join(format!("{}.journal", decisions.model)), decisions);
    folder
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tilewright")).current_dir(folder).args(arguments).output().unwrap()
}

fn page(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, &[&["report", "--html", "page.html"], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read_to_string(folder.join("page.html")).unwrap()
}

/// Every tag is closed where it was opened; HTML's void elements are not opened.
fn assert_well_formed(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find('>').expect("a tag ends");
        let (tag, after) = rest.split_at(end);
        let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap().trim_end_matches('/');
        match tag {
            _ if tag.starts_with('!') => {}
            _ if tag.starts_with('/') => assert_eq!(open.pop(), Some(name), "</{name}>"),
            _ if tag.ends_with('/') || ["meta", "link", "br"].contains(&name) => {}
            _ => open.push(name),
        }
        rest = after;
        // Script and style hold no tags.
        if ["script", "style"].contains(&name) && !tag.starts_with('/') {
            rest = &rest[rest.find(&format!("</{name}>")).unwrap()..];
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

#[test]
fn the_page_is_well_formed_and_refers_to_nothing_outside() {
    let decisions = decisions();
    let folder = folder(&decisions);
    let table = format!("{}.toml", decisions.model);
    let page = page(folder.path(), &[&table]);
    assert_well_formed(&page);
    for reference in ["http", "src=", "url(", "@import", "<link", "<iframe", "//fonts", "fetch("] {
        assert!(!page.contains(reference), "{reference}");
    }
    assert!(page.contains("slower &amp; &lt;late&gt;") && !page.contains("<late>"));
    // A link leads to a section of the page.
    for link in page.split("href=\"#").skip(1) {
        let id = link.split('"').next().unwrap();
        assert_eq!(page.matches(&format!(" id=\"{id}\"")).count(), 1, "{id}");
    }
}

#[test]
fn every_row_is_in_the_page_and_every_plot_has_a_title_and_a_description() {
    let decisions = decisions();
    let folder = folder(&decisions);
    let page = page(folder.path(), &[&format!("{}.toml", decisions.model)]);
    let plots: Vec<&str> = page.split("<svg ").skip(1).collect();
    // Forward pass, roofline, spend and drift, and two for each weight.
    assert_eq!(plots.len(), 4 + 2 * decisions.weights.len());
    for plot in &plots {
        let plot = plot.split("</svg>").next().unwrap();
        assert!(plot.starts_with("role=\"img\" aria-labelledby=\""), "{plot}");
        assert!(plot.contains("<title id=\"") && plot.contains("<desc id=\"") && !plot.contains("NaN"));
    }
    let grid = |caption: &str| -> &str {
        let at =
            page.find(&format!("<caption>{caption}</caption>")).unwrap_or_else(|| panic!("no {caption}"));
        page[at..].split("</table>").next().unwrap()
    };
    let rows: usize = decisions.weights.iter().map(|weight| weight.rows.len()).sum();
    for caption in ["Decisions", "Every row against the device"] {
        assert_eq!(grid(caption).matches("<tr>").count(), rows + 1, "{caption}");
    }
    for row in decisions.weights.iter().flat_map(|weight| &weight.rows) {
        assert!(grid("Decisions").contains(&format!("data-sort=\"{}\"", row.time_ns)));
    }
    // The fixture's device is a CPU: nothing is known of its limits, and nothing is drawn.
    assert!(page.contains("No roof is drawn") && !page.contains("class=\"roof\""));
}

#[test]
fn the_session_tells_what_runs_took_and_how_the_machine_drifted() {
    let decisions = decisions();
    let folder = folder(&decisions);
    let page = page(folder.path(), &[&format!("{}.toml", decisions.model)]);
    assert!(page.contains("Run 2 took 12 launches and 1 candidates where run 1, the first, took 40 and 1"));
    assert!(page.contains("70 % fewer launches"));
    // The last run: 6 launches of the search, 6 of the finals, and what was refused.
    let spent = &page[page.find("<caption>Contests of the last run").unwrap()..];
    let row = spent.split("<tr>").nth(2).unwrap();
    let cells: Vec<&str> = row.split("</td>").filter_map(|cell| cell.rsplit('>').next()).collect();
    assert_eq!(cells[2..7], ["77", "1", "6", "6", "decided"]);
    assert!(page.contains("row 3 is NaN"));
}

#[test]
fn the_same_files_give_the_same_bytes() {
    let decisions = decisions();
    let folder = folder(&decisions);
    let table = format!("{}.toml", decisions.model);
    assert_eq!(page(folder.path(), &[&table]), page(folder.path(), &[&table]));
}

#[test]
fn two_tables_and_two_journals_are_compared() {
    let (before, mut after) = (decisions(), decisions());
    after.weights[0].rows[0].time_ns *= 2.0;
    after.weights[0].rows[0].interval_ns = after.weights[0].rows[0].interval_ns.map(|end| end * 2.0);
    let (a, b) = (folder(&before), folder(&after));
    let [first, second] =
        [&a, &b].map(|folder| folder.path().join(format!("{}.toml", before.model)).display().to_string());
    let page_of_tables = page(a.path(), &[&first, &second]);
    assert_well_formed(&page_of_tables);
    assert!(page_of_tables.contains("1 row slower, 0 faster"));
    let journals = [&first, &second].map(|table| table.replace(".toml", ".journal"));
    let page_of_journals = page(a.path(), &[&journals[0], &journals[1]]);
    assert!(page_of_journals.contains("0 rows slower, 0 faster, 1 within noise"));
    assert!(
        page_of_journals.contains(&before.weights[0].name),
        "the table beside a journal names its weights"
    );
}

#[test]
fn misses_are_shown_with_the_recorders_remarks() {
    let decisions = decisions();
    let folder = folder(&decisions);
    let text = "[model]\nname = \"x-misses\"\n\n# same K as mlp.down, N differs by 2.0 %: padded?\n[[gemm]]\nname = \"n100.k64\"\nn = 100\nk = 64\ncount = 7\nm = [{ m = 5, weight = 1.0 }]\n";
    fs::write(folder.path().join("misses.toml"), text).unwrap();
    let page = page(folder.path(), &[&format!("{}.toml", decisions.model), "--misses", "misses.toml"]);
    assert!(page.contains("7 calls of 1 GEMMs") && page.contains("same K as mlp.down, N differs by 2.0 %"));
}

#[test]
fn faults_of_all_files_are_reported_together() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &["report", "none.toml", "gone.journal", "--html", "page.html"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(message.contains("none.toml") && message.contains("gone.journal"), "{message}");
    assert!(!folder.path().join("page.html").exists());
}

/// Runs only where a Chromium is installed: it draws the page, and its script makes headings into buttons.
#[test]
fn a_browser_draws_the_page_and_its_script_runs() {
    let installed = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    });
    let Some(browser) = installed else {
        eprintln!("no Chromium here: not run");
        return;
    };
    let decisions = decisions();
    let folder = folder(&decisions);
    page(folder.path(), &[&format!("{}.toml", decisions.model)]);
    let profile: PathBuf = folder.path().join("profile");
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"])
        .args(["--disable-component-update", "--disable-sync", "--no-first-run", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", folder.path().join("page.html").display()))
        .output()
        .unwrap();
    let drawn = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(drawn.contains("<button type=\"button\" title=\"Sort by gain\">gain</button>"), "{drawn}");
}
