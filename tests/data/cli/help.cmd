millwright --help
millwright
millwright inventory --help
millwright show -h
millwright --version
millwright drift --help
millwright verify --help
millwright lock --help
millwright plan --help
millwright unlock --help
millwright releases --help
