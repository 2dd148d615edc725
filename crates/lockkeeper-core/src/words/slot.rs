//! Slots of a cluster: the slot of a key, and a short text with a given slot.

/// The number of slots of a cluster.
const SLOTS: u16 = 16384;

/// The cluster slot of a key, a number below 16384. Source: the cluster specification, "Key distribution model" and
/// "Hash tags".
///
/// ```
/// use lockkeeper_core::store::slot_of;
///
/// assert_eq!(slot_of("foo"), 12182);
/// assert_eq!(slot_of("{foo}:queue"), 12182);
/// ```
pub fn slot_of(key: &str) -> u16 {
    hashed(hash_tag(key).unwrap_or(key))
}

const CRC: crc::Crc<u16> = crc::Crc::<u16>::new(&crc::CRC_16_XMODEM);

fn hashed(text: &str) -> u16 {
    CRC.checksum(text.as_bytes()) % SLOTS
}

/// The part of the key that Redis hashes: the text between the first `{` and the next `}`, unless it is empty.
pub(crate) fn hash_tag(key: &str) -> Option<&str> {
    let (_, rest) = key.split_once('{')?;
    let (tag, _) = rest.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

/// The smallest six-digit number that hashes to this slot when it is written after `prefix`. Together they are a hash
/// tag for keys of the slot. Every client must find the same number.
pub(crate) fn number_behind<const N: usize>(prefix: [&str; N], slot: u16) -> u32 {
    // The checksum is linear: that of a text is those of its parts combined, each with zeros in place of the others.
    let mut beginning = CRC.digest();
    for text in prefix.into_iter().chain(["\0\0\0\0\0\0"]) {
        beginning.update(text.as_bytes());
    }
    let rest = beginning.finalize() ^ slot;
    let ends = HEADS
        .iter()
        .map(|head| TAILS[usize::from((rest ^ head) % SLOTS)]);
    let mut found = ends.zip(0..).filter(|(tail, _)| *tail < HALF);
    match found.next() {
        Some((tail, head)) => u32::from(HALF) * head + u32::from(tail),
        None => unreachable!("a test shows that every slot has a number"),
    }
}

/// How many numbers the first three digits make, and the last three.
const HALF: u16 = 1_000;

/// The checksum of each first half, with zeros in place of the other.
static HEADS: [u16; HALF as usize] = {
    let mut heads = [0; HALF as usize];
    let mut number = 0;
    while number < HALF {
        let [a, b, c] = digits(number);
        heads[number as usize] = CRC.checksum(&[a, b, c, 0, 0, 0]);
        number += 1;
    }
    heads
};

/// The smallest second half that hashes to each slot; `HALF` where none does.
static TAILS: [u16; SLOTS as usize] = {
    let mut tails = [HALF; SLOTS as usize];
    let mut number = HALF;
    while number > 0 {
        number -= 1;
        let slot = CRC.checksum(&digits(number)) % SLOTS;
        tails[slot as usize] = number;
    }
    tails
};

#[expect(clippy::cast_possible_truncation, reason = "a digit is below 10")]
const fn digits(number: u16) -> [u8; 3] {
    [
        b'0' + (number / 100) as u8,
        b'0' + (number / 10 % 10) as u8,
        b'0' + (number % 10) as u8,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_function_is_the_one_of_redis() {
        // From CLUSTER KEYSLOT of redis-server 7.0.
        assert_eq!(slot_of("foo"), 12182);
        assert_eq!(slot_of("{user1000}.following"), slot_of("user1000"));
        assert_eq!(slot_of("somekey"), 11058);
    }

    #[test]
    fn every_slot_has_a_number_behind_every_prefix() {
        for prefix in ["", "lockkeeper:", "a-long.prefix:"] {
            for slot in 0..SLOTS {
                let tag = format!("{prefix}{:06}", number_behind([prefix], slot));
                assert_eq!(slot_of(&format!("lockkeeper.fence:{{{tag}}}")), slot);
            }
        }
        // The smallest one, found by trying one number after the other.
        let first = (0..).find(|number| slot_of(&format!("shop:{number:06}")) == 77);
        assert_eq!(first, Some(number_behind(["shop", ":"], 77)));
    }
}
