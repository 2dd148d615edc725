//! The parts of Markdown that the checks need: links, and the anchors of headings.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The links and pictures of a text: the line and the target of each.
pub(super) fn links(text: &str) -> Vec<(usize, String)> {
    let events = Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter();
    let links = events.filter_map(|(event, place)| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
            let line = text[..place.start].matches('\n').count() + 1;
            Some((line, dest_url.into_string()))
        }
        _ => None,
    });
    links.collect()
}

/// The anchors of the headings, as both GitHub and mdBook generate them.
pub(super) fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(part) | Event::Code(part) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&part);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let slug = slug(&heading.take().unwrap_or_default());
                let same = anchors
                    .iter()
                    .filter(|it| **it == slug || it.strip_prefix(&slug).is_some_and(is_number))
                    .count();
                anchors.push(match same {
                    0 => slug,
                    same => format!("{slug}-{same}"),
                });
            }
            _ => {}
        }
    }
    anchors
}

/// Whether this is `-1` or the like, as added to a repeated heading.
fn is_number(suffix: &str) -> bool {
    let digits = suffix.strip_prefix('-').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// No library generates the anchors of both: each drops characters by its own rule.
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
