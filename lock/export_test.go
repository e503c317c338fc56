package lock

// StopWheelOf returns a function that closes the wheel of a client without referring to the
// client.
func StopWheelOf(c *Client) func() {
	inner := *c.engine
	return func() { inner.Close() }
}

// OpenClients returns the number of open clients in the process.
func OpenClients() int64 { return openClients.Load() }

// IDOf returns the first part of the owners of a client.
func IDOf(c *Client) string { return c.id }
