millwright apply --help
millwright rollback --help
millwright plan bad.yml -i hosts.yml
millwright apply good.yml -i hosts.yml -l lonely -e typo=1 --start-at nto
millwright apply good.yml
millwright resume
