// Command etcd runs an etcd server for the tests of other modules, which then do not depend on the
// server. It keeps its files in the folder that is its argument, prints its address, and ends with its
// standard input.
package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

const startTimeout = time.Minute // on a busy machine

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("the argument must be a folder")
	}
	anyPort := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	c := embed.NewConfig()
	c.Dir, c.LogLevel, c.UnsafeNoFsync = args[0], "fatal", true
	c.ListenClientUrls, c.AdvertiseClientUrls = anyPort, anyPort
	c.ListenPeerUrls, c.AdvertisePeerUrls = anyPort, anyPort
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	server, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	defer server.Close()
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		return err
	case <-time.After(startTimeout):
		return fmt.Errorf("the server has not started within %v", startTimeout)
	}
	fmt.Fprintln(out, server.Clients[0].Addr())
	_, err = io.Copy(io.Discard, in)
	return err
}
