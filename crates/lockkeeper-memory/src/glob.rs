//! Patterns as Redis' `SCAN` and `KEYS` read them: `*`, `?`, `[a-c]`, `[^x]`, and `\` before what stands for itself.

/// Whether all of `text` matches.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let Some((&first, rest)) = pattern.split_first() else {
        return text.is_empty();
    };
    if first == b'*' {
        return (0..=text.len()).any(|from| matches(rest, &text[from..]));
    }
    let Some((&byte, text)) = text.split_first() else {
        return false;
    };
    let (matched, rest) = match (first, rest) {
        (b'?', rest) => (true, rest),
        (b'[', set) => in_set(set, byte),
        (b'\\', [escaped, rest @ ..]) => (*escaped == byte, rest),
        (first, rest) => (first == byte, rest),
    };
    matched && matches(rest, text)
}

/// Whether `byte` is in the set that begins behind the bracket, and what stands behind the set. One that is not closed ends
/// with the pattern.
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
        ] {
            let matched = matches(pattern.as_bytes(), text.as_bytes());
            assert_eq!(matched, expected, "{pattern} {text}");
        }
    }
}
