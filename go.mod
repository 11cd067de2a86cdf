module github.com/sandlot-go/sandlot

go 1.26
