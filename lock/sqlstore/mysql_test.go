package sqlstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestErrorNumbers reads the texts of several drivers and versions, and errors with a field.
func TestErrorNumbers(t *testing.T) {
	for text, want := range map[string]int{
		"Error 1213 (40001): Deadlock found":                 1213,
		"Error 1205: Lock wait timeout exceeded":             1205,
		"ERROR 1290 (HY000): The server is running with":     1290,
		"Received #1213 error from MySQL server: \"Deadlock": 1213,
		"errno=1205 Lock wait timeout exceeded":              1205,
		"invalid connection":                                 0,
	} {
		assert.Equal(t, want, errorNumber(errors.New(text)), text)
	}
	assert.Equal(t, 1213, errorNumber(fmt.Errorf("commit: %w", &numberedError{Number: 1213, Message: "1290"})))
	assert.Equal(t, 1020, errorNumber(codedError{Code: 1020}))
}

// numberedError has the fields of the errors of github.com/go-sql-driver/mysql.
type numberedError struct {
	Number  uint16
	Message string
}

func (e *numberedError) Error() string { return e.Message }

type codedError struct{ Code int }

func (codedError) Error() string { return "coded" }
