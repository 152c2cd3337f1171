//! How many tokens one address may present that nobody has vouched for lately.
//!
//! Whoever guesses tokens, or sends an old one again and again, costs a question each time; so an address has a rate for
//! tokens that are new here or refused. A token that was good lately is never held up, because many clients may share
//! one address: that of a load balancer, a NAT or the loopback. Identities that a front proxy passes on are no tokens.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;

use crate::error::Refusal;
use crate::limiter::Limiter;

/// For how long a good token is remembered as such; this grants nothing but a look at it.
const GOOD_FOR: Duration = Duration::from_mins(10);
/// A token counts once in this time, however often it is presented: clients come with many requests at once.
const ONCE: Duration = Duration::from_secs(1);
/// An address that was quiet for this long has its whole rate again.
const QUIET: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(crate) struct Newcomers {
    rate: u32,
    good: Cache<[u8; 32], ()>,
    addresses: Cache<IpAddr, Arc<Limiter>>,
    /// What was decided of a token of an address a moment ago.
    decided: Cache<(IpAddr, [u8; 32]), bool>,
}

impl Newcomers {
    pub(crate) fn new(rate: u32, entries: u64) -> Newcomers {
        Newcomers {
            rate,
            good: Cache::builder().max_capacity(entries).time_to_idle(GOOD_FOR).build(),
            addresses: Cache::builder().max_capacity(entries).time_to_idle(QUIET).build(),
            decided: Cache::builder().max_capacity(entries).time_to_live(ONCE).build(),
        }
    }

    /// Whether the token with this hash may be looked at.
    pub(crate) async fn admit(&self, address: Option<IpAddr>, token: &[u8; 32]) -> Result<(), Refusal> {
        let Some(address) = address else { return Ok(()) };
        if self.good.contains_key(token) {
            return Ok(());
        }
        let address = network(address);
        let decide = async {
            let limiter = self.addresses.get_with(address, async { Arc::new(Limiter::new(self.rate)) }).await;
            limiter.take()
        };
        if self.decided.get_with((address, *token), decide).await { Ok(()) } else { Err(BUSY) }
    }

    /// Somebody vouched for this token.
    pub(crate) async fn vouch(&self, token: [u8; 32]) {
        // A read keeps it from going idle; only a new one is worth a write.
        if self.good.get(&token).await.is_none() {
            self.good.insert(token, ()).await;
        }
    }
}

const BUSY: Refusal =
    Refusal::Busy { what: "new or refused tokens came from this address", setting: "access.new_tokens" };

/// Whoever has an IPv6 address has the 2^64 beside it too.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_that_presents_many_unknown_tokens_holds_up_nobody_but_its_own_newcomers() {
        let newcomers = Newcomers::new(3, 100);
        let here: Option<IpAddr> = Some([10, 0, 0, 1].into());
        let good = [255; 32];
        assert!(newcomers.admit(here, &good).await.is_ok());
        newcomers.vouch(good).await;
        for number in [0, 1, 1, 1] {
            assert!(newcomers.admit(here, &[number; 32]).await.is_ok());
        }
        let refusal = newcomers.admit(here, &[9; 32]).await.expect_err("the fourth within a second");
        assert!(refusal.hint().contains("access.new_tokens"), "{}", refusal.hint());
        assert!(newcomers.admit(here, &good).await.is_ok(), "a token that was good lately");
        assert!(newcomers.admit(Some([10, 0, 0, 2].into()), &[9; 32]).await.is_ok(), "another address");
    }

    #[test]
    fn the_addresses_of_one_ipv6_network_are_one() {
        let network = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_eq!(network("::ffff:10.0.0.1"), network("10.0.0.1"));
        assert_ne!(network("10.0.0.1"), network("10.0.0.2"));
    }
}
