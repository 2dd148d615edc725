//! A canvas with the few shapes that the pictures need.

use std::fmt::Write as _;

/// The style of all pictures. A picture has its own background, because the page around it may be light on a dark system.
const STYLE: &str = "\
text{font:14px ui-sans-serif,system-ui,'Segoe UI','DejaVu Sans',sans-serif;fill:#24292f}\
.small{font-size:12px;fill:#57606a}\
.strong{font-weight:600}\
.ground{fill:#fbfcfd;stroke:#d0d7de}\
.plate{fill:#fbfcfd;stroke:none}\
.box{fill:#ffffff;stroke:#57606a}\
.line{stroke:#57606a;fill:none}\
.faint{stroke:#afb8c1;fill:none}\
.head{fill:#57606a;stroke:none}\
.hold{fill:#9fd3c7;stroke:#2b7a6c}\
.wait{fill:#f3e2b3;stroke:#a97f1f}\
.bad{fill:#f6c7c0;stroke:#b0483a}\
.badline{stroke:#b0483a;fill:none}\
@media(prefers-color-scheme:dark){\
text{fill:#e6edf3}.small{fill:#9da7b3}.ground{fill:#161b22;stroke:#30363d}.plate{fill:#161b22}\
.box{fill:#0d1117;stroke:#9da7b3}.line{stroke:#9da7b3}.faint{stroke:#484f58}.head{fill:#9da7b3}\
.hold{fill:#1f5c52;stroke:#6cc4b3}.wait{fill:#5b4a19;stroke:#d9b65c}\
.bad{fill:#6b2a22;stroke:#f08c7e}.badline{stroke:#f08c7e}}";

/// The position of a text relative to its point.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture under construction. Lengths are in pixels of the unscaled picture.
#[derive(Debug, Default)]
pub(super) struct Canvas {
    body: String,
}

impl Canvas {
    pub(super) fn text(&mut self, x: i32, y: i32, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        self.put(&format!(
            r#"<text x="{x}" y="{y}" text-anchor="{anchor}" class="{class}">{text}</text>"#
        ));
    }

    /// A box with rounded corners.
    pub(super) fn rect(&mut self, x: i32, y: i32, width: i32, height: i32, class: &str) {
        self.put(&format!(
            r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" class="{class}"/>"#
        ));
    }

    /// A box with a line of text in the middle.
    pub(super) fn label(&mut self, [x, y, width, height]: [i32; 4], class: &str, text: &str) {
        self.rect(x, y, width, height, class);
        let (x, y) = (x + width / 2, y + height / 2 + 5);
        self.text(x, y, Anchor::Middle, "", text);
    }

    pub(super) fn line(&mut self, from: (i32, i32), to: (i32, i32), class: &str, dashed: bool) {
        let dash = if dashed {
            r#" stroke-dasharray="5 4""#
        } else {
            ""
        };
        let ((x1, y1), (x2, y2)) = (from, to);
        self.put(&format!(
            r#"<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" class="{class}" stroke-width="1.4"{dash}/>"#
        ));
    }

    /// A line with an arrowhead at its end, along one axis.
    pub(super) fn arrow(&mut self, from: (i32, i32), to: (i32, i32), dashed: bool) {
        self.line(from, to, "line", dashed);
        let (x, y) = to;
        let (dx, dy) = ((from.0 - x).signum() * 9, (from.1 - y).signum() * 9);
        let (wx, wy) = (dy / 2, dx / 2);
        let points = [
            (x, y),
            (x + dx + wx, y + dy + wy),
            (x + dx - wx, y + dy - wy),
        ];
        let points: Vec<_> = points.iter().map(|(x, y)| format!("{x},{y}")).collect();
        self.put(&format!(
            r#"<polygon points="{}" class="head"/>"#,
            points.join(" ")
        ));
    }

    /// Two crossing strokes, for a message that is lost or refused.
    pub(super) fn cross(&mut self, x: i32, y: i32) {
        self.line((x - 6, y - 6), (x + 6, y + 6), "badline", false);
        self.line((x - 6, y + 6), (x + 6, y - 6), "badline", false);
    }

    /// The finished file. `title` is for readers who cannot see it.
    pub(super) fn finish(self, width: i32, height: i32, title: &str) -> String {
        let (body, title) = (self.body, escaped(title));
        let (inner_width, inner_height) = (width - 1, height - 1);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
             <rect x=\"0.5\" y=\"0.5\" width=\"{inner_width}\" height=\"{inner_height}\" rx=\"8\" class=\"ground\"/>\n\
             {body}</svg>\n"
        )
    }

    fn put(&mut self, element: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.body, "{element}");
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
