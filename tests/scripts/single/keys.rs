//! Reads the keys directly, without the scripts.

use super::*;

impl Scripts {
    pub(in crate::scripts) async fn keys(&self) -> Result<Vec<String>> {
        let mut keys = self.site.keys().await?;
        keys.sort();
        Ok(keys)
    }

    /// All keys with their content.
    pub(in crate::scripts) async fn dump(&self) -> Result<Vec<String>> {
        const READ: &str = "local t = redis.call('TYPE', KEYS[1]).ok \
            if t == 'string' then return redis.call('GET', KEYS[1]) end if t == 'list' then return table.concat(redis.call('LRANGE', KEYS[1], 0, -1), ' ') end \
            if t == 'zset' then return table.concat(redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), ' ') end \
            return table.concat(redis.call('HGETALL', KEYS[1]), ' ')";
        let mut dump = Vec::new();
        for key in self.keys().await? {
            dump.push(format!(
                "{key}: {}",
                self.command(&["EVAL", READ, "1", &key]).await?
            ));
        }
        Ok(dump)
    }

    /// The claims under the name, from its keys: `<flag><share>:<claim>`, and what is left of each lease, ms.
    pub(in crate::scripts) async fn leases(&self) -> Result<Vec<(String, i64)>> {
        self.leases_of("name").await
    }

    pub(in crate::scripts) async fn leases_of(&self, name: &str) -> Result<Vec<(String, i64)>> {
        const READ: &str = "local value = redis.call('LINDEX', KEYS[1], '0') or '' \
            local share, claim, flags = string.match(value, '^%l+ ([x%d]+) (%S+) %d+(%l*)$') \
            if claim then \
              local left = redis.call('PTTL', KEYS[1]) \
              return string.format('%s%s:%s %.0f', string.match(flags, '[rc]') or '', share, claim, left) \
            end \
            if not string.find(value, ' * ', 1, true) then return '' end \
            local time, lines = redis.call('TIME'), {} \
            local now = time[1] * 1000 + math.floor(time[2] / 1000) \
            local members = redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES') \
            for i = 1, #members, 2 do \
              lines[#lines + 1] = string.format('%s %.0f', members[i], members[i + 1] - now) \
            end \
            return table.concat(lines, '\\n')";
        let name = name_of(name)?;
        let lines = self
            .command(&["EVAL", READ, "2", name.main(), &name.part("holders")])
            .await?;
        let lease = |line: &str| {
            let (member, left) = line.split_once(' ').context("two words")?;
            Ok((member.to_owned(), left.parse()?))
        };
        lines.lines().map(lease).collect()
    }

    /// The claims under the name, from its keys: `<flag><share>:<claim>`.
    pub(in crate::scripts) async fn standing(&self) -> Result<Vec<String>> {
        let leases = self.leases().await?;
        Ok(leases.into_iter().map(|(member, _)| member).collect())
    }

    /// What is left of the lease of a claim that holds the whole name, from the keys, ms.
    pub(in crate::scripts) async fn left(&self, who: Who) -> Result<i64> {
        let (leases, member) = (self.leases().await?, format!("x:{}", who.text()?));
        let lease = leases.iter().find(|(found, _)| *found == member);
        Ok(lease
            .with_context(|| format!("{member} is not in {leases:?}"))?
            .1)
    }

    /// Moves time on until this much is left of the lease of a claim that holds the whole name, ms.
    pub(in crate::scripts) async fn lease_ends_in(&self, who: Who, left: i64) -> Result<()> {
        self.lease_on_ends_in("name", who, left).await
    }

    pub(in crate::scripts) async fn lease_on_ends_in(
        &self,
        name: &str,
        who: Who,
        left: i64,
    ) -> Result<()> {
        const SET: &str = "if not string.find(redis.call('LINDEX', KEYS[1], '0'), ' * ', 1, true) then \
              return redis.call('PEXPIRE', KEYS[1], ARGV[2]) \
            end \
            local time = redis.call('TIME') \
            local now = time[1] * 1000 + math.floor(time[2] / 1000) \
            return redis.call('ZADD', KEYS[2], string.format('%.0f', now + ARGV[2]), ARGV[1])";
        let (name, member, left) = (
            name_of(name)?,
            format!("x:{}", who.text()?),
            left.to_string(),
        );
        let words = [
            "EVAL",
            SET,
            "2",
            name.main(),
            &name.part("holders"),
            &member,
            &left,
        ];
        self.command(&words).await?;
        Ok(())
    }

    /// Whether the value has the sign of a poller.
    pub(in crate::scripts) async fn is_polled(&self) -> Result<bool> {
        let value = self.command(&["LINDEX", MAIN, "0"]).await?;
        let words: Vec<&str> = value.split(' ').collect();
        let flags = words
            .get(6)
            .or(words.get(3))
            .with_context(|| value.clone())?;
        Ok(flags.contains('p'))
    }

    /// Every key expires, and none after the marker.
    pub(in crate::scripts) async fn every_key_ends(&self) -> Result<()> {
        let main = self.pttl(MAIN).await?;
        for key in self.keys().await? {
            let left = self.pttl(&key).await?;
            ensure!(left > 0, "{key} has no end");
            let is_derived = [HOLDERS, QUEUE, STATE].contains(&&*key);
            // The two were read at different times.
            ensure!(
                !is_derived || left <= main + 1,
                "{key} ends after {left} ms, the marker after {main}"
            );
        }
        Ok(())
    }
}
