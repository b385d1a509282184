"""What tests, benches and tools share: played hosts and boards, real services, stores to read."""
