"""Control of a board for its strategy: following a boot, low-power modes, provisioning."""
