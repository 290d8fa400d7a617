millwright inventory -i hosts.yml --graph
millwright inventory -i hosts.yml --list
millwright inventory -i hosts.yml -l 'gpu:!gpu2'
millwright inventory -i hosts.yml --host gpu1
millwright inventory -i hosts.yml --explain gpu1 ansible_user
millwright inventory -i hosts.yml --explain gpu1 nothing
millwright inventory -i hosts.yml -l gpux
millwright inventory -i hosts.yml --host gpu
millwright inventory -i nowhere.yml
millwright inventory -i ../inventories/broken/undefined-groups.ini -i ../inventories/broken/misspelt.ini
millwright inventory
millwright inventory -i hosts.yml -l '~gpu(?!1|$)'
millwright inventory -i hosts.yml -l @/dev/zero
millwright inventory -i /dev/zero
