//! A minimal Markdown parser: table rows and code spans.

/// The cells of a table row; `None` for other lines and for the delimiter row.
pub(super) fn row(line: &str) -> Option<Vec<String>> {
    let inner = line.trim().strip_prefix('|')?;
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    let mut cells = vec![String::new()];
    let mut escaped = false;
    for c in inner.chars() {
        if c == '|' && !escaped {
            cells.push(String::new());
        } else if let Some(cell) = cells.last_mut() {
            cell.push(c);
        }
        escaped = c == '\\' && !escaped;
    }
    let cells: Vec<String> = cells.iter().map(|cell| cell.trim().to_owned()).collect();
    let rule = cells.iter().all(|cell| !cell.is_empty() && cell.chars().all(|c| matches!(c, '-' | ':')));
    (!rule).then_some(cells)
}

/// The code spans of a text, between single backticks.
pub(super) fn spans(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).map(str::trim).filter(|span| !span.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_cells_and_rules_are_no_rows() {
        assert_eq!(row("| a | `b` \\| c |"), Some(vec!["a".to_owned(), "`b` \\| c".to_owned()]));
        assert_eq!(row("|---|:--|"), None);
        assert_eq!(row("text | more"), None);
    }

    #[test]
    fn spans_stand_between_backticks() {
        assert_eq!(spans("see `a` and `b::c`."), ["a", "b::c"]);
        assert!(spans("none").is_empty());
    }
}
