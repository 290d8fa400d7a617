millwright lint good.yml -i hosts.yml
millwright lint bad.yml -i ../inventories/broken/priority.ini
millwright lint bad.yml --json
millwright graph good.yml --format mermaid
millwright graph good.yml
