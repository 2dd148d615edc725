//! A refusal of the server is returned as it is: "not allowed" must not look like "not held".

use std::sync::Arc;

use super::*;

/// A replica that lacks a claim must not say that the claim is gone.
#[tokio::test]
async fn a_replica_refuses_instead_of_answering_from_what_it_has() -> Result<()> {
    let server = Server::start().await?;
    server.command(&["REPLICAOF", "127.0.0.1", "1"]).await?;
    let it = Scripts::on(server).await?;
    refused(&it, "READONLY").await
}

/// A user who may not read a key must not be told that it does not exist.
#[tokio::test]
async fn a_user_without_a_right_gets_the_refusal_and_no_answer() -> Result<()> {
    let server = Server::start().await?;
    let rules = [
        "ACL", "SETUSER", "u", "on", ">pw", "~*", "&*", "+@all", "-get", "-getex", "-mget",
        "-hdel", "-hmget", "-hgetall", "-lindex", "-lrem", "-set", "-zrem",
    ];
    server.command(&rules).await?;
    let url = format!("redis://u:pw@127.0.0.1:{}", server.port());
    let mut it = Scripts::on(server).await?;
    it.connection.store = Arc::new(lockkeeper_testkit::site::options().connect(&url).await?);
    refused(&it, "").await
}

/// The server refuses every script of every kind with this code, for repeated grants and first requests. Scripts without keys
/// concern the server itself and are left out.
async fn refused(it: &Scripts, code: &str) -> Result<()> {
    let about_keys = |script: &&&Script| !script.keys.is_empty();
    for script in lockkeeper_lua::ALL.iter().filter(about_keys) {
        for token in ["token", "0"] {
            let name = name_of("name")?;
            let keys = script.keys.iter().map(|key| name.part(key));
            let args: Vec<&str> = script.args[1..]
                .iter()
                .map(|&arg| match arg {
                    // However short the server has been up, it takes part.
                    "longest" | "floor" => "0",
                    "token" => token,
                    "n" | "permits" => "2",
                    _ if arg.ends_with("ttl") => "30000",
                    _ => arg,
                })
                .collect();
            let error = it.run(script, keys, &args).await.err();
            let error = error.with_context(|| format!("{} answered", script.name))?;
            let error = error.downcast::<lockkeeper_core::store::StoreError>()?;
            let refused = error.outcome() == lockkeeper_core::store::Outcome::Refused;
            let coded = code.is_empty() || error.code() == Some(code);
            ensure!(refused && coded, "{}: {error}", script.name);
        }
    }
    Ok(())
}
