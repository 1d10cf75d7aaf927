-- Build settings of an app. NULL: detected automatically.
ALTER TABLE apps ADD COLUMN root_directory TEXT;
ALTER TABLE apps ADD COLUMN install_command TEXT;
ALTER TABLE apps ADD COLUMN build_command TEXT;
ALTER TABLE apps ADD COLUMN output_directory TEXT;
