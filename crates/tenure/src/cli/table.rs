//! Tables with aligned columns.

use super::screen::Paint;

/// The space between columns.
const GAP: &str = "  ";

/// Rows of cells with a header.
#[derive(Debug)]
pub(crate) struct Table {
    head: Vec<&'static str>,
    /// Which columns are right-aligned.
    right: Vec<bool>,
    rows: Vec<Vec<(Paint, String)>>,
}

impl Table {
    /// An empty table. A column whose name begins with `>` is right-aligned.
    pub(crate) fn new<const N: usize>(columns: [&'static str; N]) -> Self {
        let right = columns.iter().map(|name| name.starts_with('>')).collect();
        Self { head: columns.map(|name| name.trim_start_matches('>')).into(), right, rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row<const N: usize>(&mut self, cells: [(Paint, String); N]) {
        debug_assert_eq!(N, self.head.len());
        self.rows.push(cells.into());
    }

    /// The table as text. Columns that are empty in every row are omitted.
    pub(crate) fn render(&self, colours: bool) -> String {
        let width = |column: usize| self.rows.iter().map(|row| row[column].1.chars().count()).max();
        let columns: Vec<(usize, usize)> = (0..self.head.len())
            .map(|column| (column, width(column).unwrap_or(0)))
            .filter(|(_, width)| *width > 0 || self.rows.is_empty())
            .map(|(column, width)| (column, width.max(self.head[column].len())))
            .collect();
        let head: Vec<(Paint, String)> =
            self.head.iter().map(|name| (Paint::Dim, (*name).to_owned())).collect();
        let mut text = String::new();
        for row in std::iter::once(&head).chain(&self.rows) {
            let cells: Vec<String> = columns
                .iter()
                .map(|(column, width)| {
                    let (paint, cell) = &row[*column];
                    let fill = " ".repeat(width - cell.chars().count());
                    let styled = if colours && !cell.is_empty() { paint.on(cell) } else { cell.clone() };
                    if self.right[*column] { fill + &styled } else { styled + &fill }
                })
                .collect();
            text.push_str(cells.join(GAP).trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(text: &str) -> (Paint, String) {
        (Paint::Green, text.to_owned())
    }

    #[test]
    fn columns_are_aligned_and_empty_ones_omitted() {
        let mut table = Table::new(["KEY", "META", ">LEFT"]);
        table.row([cell("a"), cell(""), cell("12s")]);
        table.row([cell("long/key"), cell(""), cell("1m10s")]);
        assert_eq!(table.render(false), "KEY        LEFT\na           12s\nlong/key  1m10s\n");
    }

    #[test]
    fn colors_do_not_change_the_alignment() {
        let mut table = Table::new(["A", "B"]);
        table.row([cell("x"), cell("y")]);
        assert_eq!(
            table.render(true),
            "\x1b[2mA\x1b[0m  \x1b[2mB\x1b[0m\n\x1b[32mx\x1b[0m  \x1b[32my\x1b[0m\n"
        );
    }
}
