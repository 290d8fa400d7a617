millwright apply --help
millwright rollback --help
millwright plan bad.yml -i hosts.yml
millwright apply good.yml -i hosts.yml -l lonely -e typo=1 --start-at nto
millwright apply good.yml
millwright plan everywhere.yml
millwright plan here.yml --state "$HOME/other" | head -3
millwright plan good.yml -i hosts.yml -e @/dev/zero
millwright plan /dev/zero -i hosts.yml
millwright lock gpu1 --why test
millwright resume
