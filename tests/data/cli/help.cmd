millwright --help
millwright
millwright inventory --help
millwright show -h
millwright --version
