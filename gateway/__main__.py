"""`python -m gateway` is the same as `responses-gateway`."""

from gateway.cli import main

if __name__ == "__main__":
    main()
