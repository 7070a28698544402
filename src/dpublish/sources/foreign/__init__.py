"""Files of other programs: workbooks, and files of SPSS, Stata and SAS."""
