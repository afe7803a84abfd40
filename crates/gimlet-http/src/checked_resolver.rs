//! Name resolution that returns only addresses which the caller permits, so that the address that was checked is the
//! one that is connected to.

use std::net::{IpAddr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Resolver that leaves out every address that the check refuses.
pub(crate) struct CheckedResolver(pub(crate) fn(IpAddr) -> bool);

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let permits = self.0;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let addresses: Vec<SocketAddr> = found.filter(|address| permits(address.ip())).collect();
            if addresses.is_empty() {
                return Err(format!("{} has no address that may be reached", name.as_str()).into());
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
