//! Patterns as Redis' `SCAN` and `KEYS` read them: `*`, `?`, `[a-c]`, `[^x]`, and `\` before a literal character.

/// Whether all of `text` matches.
///
/// If the rest of the pattern does not match, the last `*` tries again with one byte more. Earlier `*` need no second
/// try, because everything before the last one has matched as early as possible. So the time is at most proportional to
/// the product of both lengths.
#[must_use]
pub fn matches(mut pattern: &[u8], mut text: &[u8]) -> bool {
    // The rest of the pattern after the last `*`, and where in the text it was last tried.
    let mut last_star: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', behind @ ..] = pattern {
            last_star = Some((behind, text));
            pattern = behind;
            continue;
        }
        let Some((&byte, rest)) = text.split_first() else {
            return pattern.is_empty();
        };
        if let Some(behind) = step(pattern, byte) {
            (pattern, text) = (behind, rest);
            continue;
        }
        let Some((behind, [_, later @ ..])) = last_star else {
            return false;
        };
        last_star = Some((behind, later));
        (pattern, text) = (behind, later);
    }
}

/// The rest of a pattern, which does not begin with `*`, after the element that matches `byte`; `None` if it does not
/// match.
fn step(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    let (matched, rest) = match pattern {
        [] => return None,
        [b'?', rest @ ..] => (true, rest),
        [b'[', set @ ..] => in_set(set, byte),
        [b'\\', escaped, rest @ ..] => (*escaped == byte, rest),
        [first, rest @ ..] => (*first == byte, rest),
    };
    matched.then_some(rest)
}

/// Whether `byte` is in the set that begins after the bracket, and the rest of the pattern after the set. A set that
/// is not closed ends with the pattern.
fn in_set(set: &[u8], byte: u8) -> (bool, &[u8]) {
    let (inverted, mut rest) = match set {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut found = false;
    loop {
        rest = match rest {
            [] => break,
            [b']', behind @ ..] => {
                rest = behind;
                break;
            }
            [b'\\', escaped, behind @ ..] => {
                found |= *escaped == byte;
                behind
            }
            [from, b'-', to, behind @ ..] => {
                found |= (from.min(to)..=from.max(to)).contains(&&byte);
                behind
            }
            [one, behind @ ..] => {
                found |= *one == byte;
                behind
            }
        };
    }
    (found != inverted, rest)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn patterns_match_as_those_of_redis() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("a?c", "abc", true),
            ("a?", "a", false),
            ("[a-c]x", "bx", true),
            ("[c-a]x", "bx", true),
            ("[^a-c]x", "bx", false),
            ("[^a-c]x", "dx", true),
            (r"[\]]", "]", true),
            ("[ab", "b", true),
            (r"\*", "*", true),
            (r"\*", "a", false),
            (r"a\", r"a\", true),
            ("", "", true),
            ("", "a", false),
            ("*a*b", "aabab", true),
            ("*a*b*", "bbab", true),
            ("a*bc", "abcbc", true),
            ("*[ab]c**", "xabcx", true),
            ("*ab", "aab", true),
            ("*ab", "aba", false),
        ] {
            let matched = matches(pattern.as_bytes(), text.as_bytes());
            assert_eq!(matched, expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_of_many_stars_takes_no_longer_than_others() {
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let pattern = "*a".repeat(40) + "*b";
            tell.send(matches(pattern.as_bytes(), "a".repeat(1000).as_bytes()))
        });
        // Trying every combination would practically never end.
        assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(false));
    }
}
