//! A claim of the same client replaces a claim.

use super::*;

vectors! { [thin inflated] [mutex] {
    a_handover_draws_a_token_and_leaves_the_queue_as_it_is
    a_handover_run_twice_has_the_effect_of_once_and_late_of_none
    a_handover_needs_a_claim_that_holds
}}

async fn a_handover_draws_a_token_and_leaves_the_queue_as_it_is(it: &Lock) -> Result<()> {
    let first = it.hold(A).await?;
    ensure!(token(&it.convert(B, A, "0").await?)? > first);
    ensure!(it.verify(A).await? == "GONE" && is_nearly(it.left(B).await?, HOUR));
    ensure!(waiting(&it.acquire(C).await?)? == 1);
    let told = it.told(async {
        token(&it.convert(D, B, "0").await?)?;
        Ok(())
    });
    ensure!(told.await?.is_empty(), "nobody's turn has come");
    ensure!(it.heartbeat(&[C]).await? == ["WAITING 1"]);
    ensure!(it.counts().await? == "1 1 0");
    ensure!(it.release(D).await? == "RELEASED 1 0");
    token(&it.heartbeat(&[C]).await?[0])?;
    Ok(())
}

async fn a_handover_run_twice_has_the_effect_of_once_and_late_of_none(it: &Lock) -> Result<()> {
    it.hold(A).await?;
    let granted = it.convert(B, A, "0").await?;
    ensure!(it.convert(B, A, "0").await? == granted);
    ensure!(it.release(A).await?.starts_with("NOT_HELD "));
    ensure!(it.release(B).await? == "RELEASED 1 0");
    ensure!(it.convert(B, A, "0").await? == "GONE");
    ensure!(it.keys().await?.is_empty());
    it.hold(A).await?;
    ensure!(
        it.release_with(C, "0", "50000")
            .await?
            .starts_with("NOT_HELD ")
    );
    ensure!(it.convert(C, A, "0").await? == "GONE", "it has left before");
    token(&it.acquire(A).await?)?;
    Ok(())
}

async fn a_handover_needs_a_claim_that_holds(it: &Lock) -> Result<()> {
    ensure!(it.convert(B, A, "0").await? == "GONE");
    it.hold(A).await?;
    ensure!(it.convert(C, B, "0").await? == "GONE");
    number(&it.release_with(A, "40000", "0").await?, "COOLDOWN", 2)?;
    ensure!(it.convert(B, A, "0").await? == "GONE", "it cools down");
    it.pass(40_001).await?;
    it.hold(C).await?;
    it.pass(HOUR + 1).await?;
    ensure!(
        it.convert(B, C, "0").await? == "GONE",
        "its lease has ended"
    );
    Ok(())
}
