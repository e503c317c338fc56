// Free ports for servers that start later.

package testproxy

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
)

// Ports that a system gives out by itself are above these.
const (
	firstPort = 10_000
	portRange = 20_000
)

var (
	startPort = rand.Uint32N(portRange) // processes begin at different ones
	usedPorts atomic.Uint32
)

// FreePorts returns ports on which nothing listens at 127.0.0.1, for servers that start later. The
// next calls of this process return others, and no proxy and no connection gets them meanwhile.
func FreePorts(n int) ([]int, error) {
	var ports []int
	for range portRange {
		if len(ports) == n {
			return ports, nil
		}
		port := firstPort + int((startPort+usedPorts.Add(1))%portRange)
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			_ = l.Close()
			ports = append(ports, port)
		}
	}
	return nil, fmt.Errorf("testproxy: %d of %d ports are free", len(ports), n)
}
