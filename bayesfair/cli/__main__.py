from bayesfair.cli.main import main

raise SystemExit(main())
