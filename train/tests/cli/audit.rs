//! `gradus audit` from outside.

use std::fs;

use super::gradus;

#[test]
fn ops_are_audited_and_nothing_is_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let (page, html) = (dir.path().join("OPS.md"), dir.path().join("ops.html"));
    let line = "audit ops --draws 2 --quiet --markdown {} --html {} --json";
    let found = gradus(line, &[&page, &html]).json();
    assert_eq!((found["draws"].as_u64(), found["faults"].as_array().map(Vec::len)), (Some(2), Some(0)));
    let ops = found["ops"].as_array().unwrap();
    let gelu = ops.iter().find(|op| op["name"] == "gelu").unwrap();
    assert!(gelu["golden"]["gradient"].as_f64().unwrap() < 1e-13 && gelu["teeth"] == true && gelu["fused"] == true);
    let evidence = gelu["evidence"].as_array().unwrap();
    assert_eq!(
        (evidence.len(), evidence[0]["witness"].as_str(), evidence[0]["samples"].as_u64()),
        (8, Some("forward_mode"), Some(6))
    );
    let (text, shown) = (fs::read_to_string(&page).unwrap(), fs::read_to_string(&html).unwrap());
    for op in ops {
        let name = op["name"].as_str().unwrap();
        assert!(text.contains(&format!("\n## {name}\n")) && shown.contains(&format!("<h2>{name}</h2>")), "{name}");
    }
    fs::write(&page, "mine").unwrap();
    gradus(line, &[&page, &html]).fails_with(&["OPS.md", "--overwrite"]);
    assert_eq!(fs::read_to_string(&page).unwrap(), "mine");
    let summary = gradus(&format!("{} --overwrite", line.replace(" --json", "")), &[&page, &html]);
    assert!(summary.code == Some(0) && summary.stdout.lines().count() == 8, "{}", summary.stdout);
    assert_eq!(fs::read_to_string(&page).unwrap(), text);
    gradus("audit ops --draws 0", &[]).fails_with(&["--draws 0", "from 1"]);
}
