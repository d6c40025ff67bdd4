//! What the commands say on a terminal: colours, aligned columns, and how much.
//!
//! Colour is decided by `anstream`, which clap brings along: only on a terminal, never where `NO_COLOR` is set, always where
//! `CLICOLOR_FORCE` is and `NO_COLOR` is not. Everything here is written with colours and stripped where there are none, so that
//! a file or a pipe gets plain text. Results go to standard output, remarks to standard error; `-q` leaves remarks out, `-v`
//! adds details.

use std::io::Write as _;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use anstyle::{AnsiColor, Style};
use anyhow::Context as _;

/// Red: wrong, or slower.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// Green: right, or faster.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Yellow: a doubt.
pub const DOUBT: Style = AnsiColor::Yellow.on_default().bold();
/// Cyan: what to do.
pub const HELP: Style = AnsiColor::Cyan.on_default();
/// Bold: a heading.
pub const HEADING: Style = Style::new().bold();
/// Faint: what matters less.
pub const QUIET: Style = Style::new().dimmed();
/// As it is.
pub const PLAIN: Style = Style::new();

/// 0 quiet, 1 as usual, 2 with details.
static LEVEL: AtomicU8 = AtomicU8::new(1);

/// Sets how much is said, for the whole process.
pub fn set_level(quiet: bool, verbose: bool) {
    LEVEL.store(if quiet { 0 } else { 1 + u8::from(verbose) }, Relaxed);
}

/// Whether remarks are left out.
pub fn is_quiet() -> bool {
    LEVEL.load(Relaxed) == 0
}

/// Whether details are asked for.
pub fn is_verbose() -> bool {
    LEVEL.load(Relaxed) == 2
}

/// A text in a style.
pub fn paint(style: Style, text: &str) -> String {
    if style.is_plain() { text.to_owned() } else { format!("{style}{text}{style:#}") }
}

/// A number of things: `1 row`, `2 rows`.
pub fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Writes a result to standard output. A reader that has seen enough (`| head`) is no failure.
///
/// # Errors
/// If it cannot be written.
pub fn print(text: &str) -> anyhow::Result<()> {
    match anstream::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// Says what was done, unless `-q`.
pub fn note(text: &str) {
    if !is_quiet() {
        say(text);
    }
}

/// Says more, with `-v`.
pub fn detail(text: &str) {
    if is_verbose() {
        say(&paint(QUIET, text));
    }
}

/// Says what is doubtful, unless `-q`.
pub fn warn(text: &str) {
    if !is_quiet() {
        say(&format!("{} {}", paint(DOUBT, "warning:"), helped(text)));
    }
}

/// Says why a command failed.
pub fn error(text: &str) {
    say(&format!("{} {}", paint(BAD, "error:"), helped(text)));
}

/// Standard error is where remarks go: if it is gone, nobody listens.
fn say(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// What to do stands out.
fn helped(text: &str) -> String {
    text.replace("\n  help:", &format!("\n  {}", paint(HELP, "help:")))
}

/// A table of aligned columns.
pub struct Columns {
    heads: Vec<(String, bool)>,
    rows: Vec<Vec<(String, Style)>>,
}

impl Columns {
    /// No rows; headings that begin with `#` are of numbers, which stand at the right.
    pub fn new(heads: &[&str]) -> Self {
        let head = |head: &&str| match head.strip_prefix('#') {
            Some(name) => (name.to_owned(), true),
            None => ((*head).to_owned(), false),
        };
        Columns { heads: heads.iter().map(head).collect(), rows: Vec::new() }
    }

    /// Adds a row, as wide as the headings or less.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(|cell| (cell.into(), PLAIN)).collect());
    }

    /// Sets the style of the last row's cell in a column.
    pub fn style(&mut self, column: usize, style: Style) {
        if let Some(cell) = self.rows.last_mut().and_then(|row| row.get_mut(column)) {
            cell.1 = style;
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines, headings first. Nothing is cut off: a terminal can be widened, a text that is gone cannot.
    pub fn render(&self) -> String {
        let width = |text: &str| text.chars().count();
        let widths: Vec<usize> = (0..self.heads.len())
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|(text, _)| width(text));
                cells.chain([width(&self.heads[column].0)]).max().unwrap_or(0)
            })
            .collect();
        let line = |cells: &[(String, Style)]| {
            let mut line = String::new();
            for (column, (text, style)) in cells.iter().enumerate() {
                let room = " ".repeat(widths[column].saturating_sub(width(text)));
                if column > 0 {
                    line += "  ";
                }
                match (self.heads[column].1, column + 1 == cells.len()) {
                    (true, _) => line += &(room + &paint(*style, text)),
                    // No blanks at a line's end.
                    (false, true) => line += &paint(*style, text),
                    (false, false) => line += &(paint(*style, text) + &room),
                }
            }
            line + "\n"
        };
        let heads: Vec<(String, Style)> =
            self.heads.iter().map(|(name, _)| (name.clone(), HEADING)).collect();
        line(&heads) + &self.rows.iter().map(|row| line(row)).collect::<String>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_whatever_its_colour() {
        let mut columns = Columns::new(&["weight", "#time", "change"]);
        columns.row(["a", "12.5 µs", "slower"]);
        columns.style(2, BAD);
        columns.row(["longer name", "1 s", "faster"]);
        let plain = anstream::adapter::strip_str(&columns.render()).to_string();
        assert_eq!(
            plain,
            "weight          time  change\n\
             a            12.5 µs  slower\n\
             longer name      1 s  faster\n"
        );
        assert!(columns.render().contains("\u{1b}["));
    }

    #[test]
    fn a_plain_text_has_no_codes() {
        assert_eq!(paint(PLAIN, "x"), "x");
    }
}
