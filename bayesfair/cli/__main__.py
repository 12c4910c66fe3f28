from bayesfair.cli.entry import main

raise SystemExit(main())
