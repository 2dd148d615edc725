//! The part of Markdown that the checks need: links.

use pulldown_cmark::{Event, Options, Parser, Tag};

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
