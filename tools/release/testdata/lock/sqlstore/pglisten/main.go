// Command main uses the module lock/sqlstore/pglisten as a program of its users does.
package main

import (
	"fmt"
	"log"

	"github.com/leasewheel/leasewheel/lock/sqlstore"
	"github.com/leasewheel/leasewheel/lock/sqlstore/pglisten"
)

func main() {
	listener, err := pglisten.New("postgres://127.0.0.1:1/locks", nil)
	if err != nil {
		log.Fatal(err)
	}
	options := sqlstore.Options{Listener: listener}
	fmt.Println("unavailable:", options.Listener.Channel() == "")
	if err := listener.Close(); err != nil {
		log.Fatal(err)
	}
}
