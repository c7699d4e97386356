"""``python -m pi_actors`` is the command ``pi-actors``."""

from pi_actors.cli import main

main()
