millwright invntory
millwright inventory --lmit x
millwright inventory -i
millwright version extra
millwright --nonsense
millwright steps comand
millwright completion tcsh
