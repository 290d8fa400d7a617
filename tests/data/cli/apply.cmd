millwright apply --help
millwright rollback --help
millwright plan bad.yml -i hosts.yml
millwright apply good.yml -i hosts.yml -l lonely -e typo=1 --start-at nto
millwright apply good.yml
millwright plan everywhere.yml
millwright plan here.yml --state "$HOME/other" | head -3
millwright plan inputs.yml --state "$HOME/other" -e 'path=C:\new l=x' -e "motto='two words'" | grep -v ^page
millwright plan inputs.yml --state "$HOME/other" -e 'path="C:\new"' -e '{"l": ["a", "b"], "motto": "two words"}' | grep -v ^page
millwright plan inputs.yml -e 'l={a}'
millwright plan inputs.yml -e "motto=it's"
millwright plan inputs.yml -e 'motto=two words'
millwright plan good.yml -i hosts.yml -e @/dev/zero
millwright plan /dev/zero -i hosts.yml
millwright lock gpu1 --why test
millwright resume
millwright plan inputs.yml --state "$HOME/other" -e "path='C:\new' motto='two words' l=[\"a\", \"b\"]" | grep -v ^page
millwright plan inputs.yml --state "$HOME/other" -e 'l=[a, b]' -e 'path=C:\new' -e "motto='two words'" | grep -v ^page
millwright plan inputs.yml -e 'l=[a, "b'
millwright plan inputs.yml -e 'l=[a, b'
