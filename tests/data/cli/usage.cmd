millwright invntory
millwright inventory --lmit x
millwright inventory -i
millwright version extra
millwright --nonsense
millwright steps comand
millwright completion tcsh
millwright lint missing.yml
millwright smoke http://127.0.0.1:9 --level x
millwright smoke http://127.0.0.1:9 --key-env NO_SUCH_KEY
millwright plan good.yml -i hosts.yml -e "$(printf 'name=\350')"
