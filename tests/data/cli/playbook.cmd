millwright lint good.yml -i hosts.yml
millwright lint bad.yml -i ../inventories/broken/priority.ini
millwright lint bad.yml --json
millwright lint good.yml here.yml
millwright lint everywhere.yml good.yml -i hosts.yml
millwright lint good.yml -i hosts.yml -l gpu9
millwright lint good.yml -i hosts.yml -l lonely
millwright lint -i hosts.yml -l gpu9
millwright lint good.yml -l gpu1
millwright lint
millwright graph good.yml --format mermaid
millwright graph good.yml
