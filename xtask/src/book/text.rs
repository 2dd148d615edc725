//! What of Markdown the checks need: links, and the anchors of headings.

/// The links of a text and its pictures: the line, and where they lead. What is code is no link.
pub(super) fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in prose(text) {
        let line = without_code(line);
        let mut rest = line.as_str();
        while let Some((_, after)) = rest.split_once("](") {
            let Some((target, after)) = after.split_once(')') else {
                break;
            };
            links.push((number, target.to_owned()));
            rest = after;
        }
    }
    links
}

/// The anchors of the headings, as GitHub and mdBook make them.
pub(super) fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, line) in prose(text) {
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let slug = slug(heading.trim());
        let same = anchors
            .iter()
            .filter(|it| **it == slug || it.strip_prefix(&slug).is_some_and(is_number))
            .count();
        anchors.push(match same {
            0 => slug,
            same => format!("{slug}-{same}"),
        });
    }
    anchors
}

/// `-1`, as the second of two headings gets it.
fn is_number(suffix: &str) -> bool {
    let digits = suffix.strip_prefix('-').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn slug(heading: &str) -> String {
    heading
        .chars()
        .filter_map(|char| match char {
            ' ' => Some('-'),
            '-' | '_' => Some(char),
            char if char.is_alphanumeric() => char.to_lowercase().next(),
            _ => None,
        })
        .collect()
}

/// The lines outside of fenced code, counted from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    let lines = text.lines().enumerate();
    lines.filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((index + 1, line))
    })
}

/// A line with the code in it blanked.
fn without_code(line: &str) -> String {
    let parts = line.split('`').enumerate();
    parts
        .map(|(index, part)| if index % 2 == 0 { part } else { "code" })
        .collect()
}
