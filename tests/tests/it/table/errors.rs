//! docs/errors.md has a heading for every reason, and for nothing else.

use std::collections::BTreeSet;

use edge::error::Reason;

#[test]
fn every_reason_is_explained() {
    let document = include_str!("../../../../docs/errors.md");
    let headings: BTreeSet<&str> = document.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let reasons: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.name()).collect();
    assert_eq!(headings, reasons);
}
