//! A drawing as SVG text.
//!
//! Why not a plotting library: the page is read in light and dark, so that colours have to be CSS classes, and every mark
//! carries its own `<title>`; the SVG of the libraries has fixed colours and bare marks.
//!
//! Invariants: all text is escaped; coordinates have one decimal, so that equal data give equal bytes; a coordinate that is
//! not finite is never written (it becomes 0).

use std::fmt::Write as _;

/// A drawing under way.
pub(super) struct Svg {
    id: String,
    width: f64,
    height: f64,
    title: String,
    description: String,
    body: String,
}

/// Where a text stands relative to its point.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    /// It begins there.
    Start,
    /// It is centred there.
    Middle,
    /// It ends there.
    End,
}

impl Svg {
    /// An empty drawing; `id` is unique in the page, title and description are what a screen reader says.
    pub(super) fn new(id: &str, [width, height]: [f64; 2], title: &str, description: &str) -> Self {
        Svg {
            id: id.to_owned(),
            width,
            height,
            title: title.to_owned(),
            description: description.to_owned(),
            body: String::new(),
        }
    }

    /// A line through points.
    pub(super) fn line(&mut self, class: &str, points: &[[f64; 2]]) {
        let points: Vec<String> =
            points.iter().map(|[x, y]| format!("{},{}", coordinate(*x), coordinate(*y))).collect();
        let _ = writeln!(self.body, "<polyline class=\"{class}\" points=\"{}\"/>", points.join(" "));
    }

    /// A closed area.
    pub(super) fn area(&mut self, class: &str, points: &[[f64; 2]]) {
        let points: Vec<String> =
            points.iter().map(|[x, y]| format!("{},{}", coordinate(*x), coordinate(*y))).collect();
        let _ = writeln!(self.body, "<polygon class=\"{class}\" points=\"{}\"/>", points.join(" "));
    }

    /// A bar from `x` over `width`, with what it stands for.
    pub(super) fn bar(&mut self, class: &str, [x, y]: [f64; 2], [width, height]: [f64; 2], tip: &str) {
        let _ = writeln!(
            self.body,
            "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}</title></rect>",
            coordinate(x),
            coordinate(y),
            coordinate(width.max(0.0)),
            coordinate(height),
            escape(tip)
        );
    }

    /// A mark of one of four shapes, with what it stands for.
    pub(super) fn mark(&mut self, class: &str, shape: usize, [x, y]: [f64; 2], tip: &str) {
        const R: f64 = 4.5;
        let (cx, cy) = (coordinate(x), coordinate(y));
        let path = match shape % 4 {
            0 => format!("<circle class=\"{class}\" cx=\"{cx}\" cy=\"{cy}\" r=\"{R}\">"),
            1 => format!("<path class=\"{class}\" d=\"M{cx} {cy}m-4-4h8v8h-8z\">"),
            2 => format!("<path class=\"{class}\" d=\"M{cx} {cy}m0-5.5l5.5 5.5l-5.5 5.5l-5.5-5.5z\">"),
            _ => format!("<path class=\"{class}\" d=\"M{cx} {cy}m0-5l5.2 9h-10.4z\">"),
        };
        let close = if shape.is_multiple_of(4) { "circle" } else { "path" };
        let _ = writeln!(self.body, "{path}<title>{}</title></{close}>", escape(tip));
    }

    /// A text.
    pub(super) fn text(&mut self, class: &str, [x, y]: [f64; 2], anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = writeln!(
            self.body,
            "<text class=\"{class}\" x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            coordinate(x),
            coordinate(y),
            escape(text)
        );
    }

    /// The element.
    pub(super) fn finish(self) -> String {
        let Svg { id, width, height, title, description, body } = self;
        format!(
            "<svg role=\"img\" aria-labelledby=\"{id}-t {id}-d\" viewBox=\"0 0 {} {}\" width=\"{0}\" height=\"{1}\">\n\
             <title id=\"{id}-t\">{}</title>\n<desc id=\"{id}-d\">{}</desc>\n{body}</svg>",
            coordinate(width),
            coordinate(height),
            escape(&title),
            escape(&description)
        )
    }
}

fn coordinate(value: f64) -> String {
    let value = if value.is_finite() { value } else { 0.0 };
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".into() } else { text.to_owned() }
}

/// Text as it may stand between tags and in attributes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // Control characters are not allowed in XML at all.
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_element() {
        let mut svg = Svg::new("a", [10.0, 10.0], "1 < 2 & \"x\"", "d");
        svg.mark("s0", 1, [1.0, f64::NAN], "</title><script>");
        let text = svg.finish();
        assert!(text.contains("1 &lt; 2 &amp; &quot;x&quot;") && !text.contains("<script"), "{text}");
        assert!(!text.contains("NaN"));
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!([2.0, 2.25, -0.01, f64::INFINITY].map(coordinate), ["2", "2.2", "0", "0"]);
    }
}
