// Systems without TCP_USER_TIMEOUT, where Options.Timeout bounds a request on a dead connection.

//go:build !linux

package redisnode

import (
	"net"
	"time"
)

func noticeDeath(net.Conn, time.Duration) {}
