"""Control of a board for its strategy: boots, low-power modes, provisioning."""
