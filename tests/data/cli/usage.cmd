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
millwright serve-modl
millwright apply serve-modl -i hosts.yml
millwright lint god.yml
millwright smoke htp://127.0.0.1:9
millwright smoke http://127.0.0.1:99999
millwright smoke http://127.0.0.1:x/v1
millwright smoke file:///etc/passwd
millwright smoke http:///v1
millwright smoke http://127.0.0.1:9 --json --junit -
millwright smoke http://127.0.0.1:9 --evidence "$HOME/e" --junit - | head -2 | sed 's/ time=.*//'
millwright graph good.yml -o "$HOME/g.bmp"
millwright graph good.yml -o "$HOME/g.png" && head -c 4 "$HOME/g.png" | tail -c 3
